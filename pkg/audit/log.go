package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	// queueLength bounds the entries that wait to be written, queueBytes the
	// memory that they hold.
	queueLength = 8192
	queueBytes  = 64 << 20

	// maxBatch is how many entries one write takes.
	maxBatch = 256

	// writePause is how long entries are left to gather after a write. A writer
	// that wakes for each of them takes a processor from calls that follow each
	// other, which is a tenth of what they cost. Nothing waits where lines have to
	// be on the disk at once.
	writePause = 10 * time.Millisecond

	// retryPause is how long a disk that failed is left alone.
	retryPause = time.Second

	// maxRetryPause bounds the pauses between attempts to open a log, which grow
	// from retryPause.
	maxRetryPause = time.Minute

	// lockPatience is how long a start waits for the daemon before it.
	lockPatience = 10 * time.Second
)

// Defaults of [Options].
const (
	DefaultMaxSize  = 32 << 20
	DefaultMaxFiles = 16
)

// Options configure a [Log].
type Options struct {
	Dir       string        // made if it is missing
	Arguments Form          // of calls; "" means Digest
	Code      Form          // of runs, Digest or Full; "" means Full
	MaxSize   int64         // bytes after which a new file is begun; 0 means DefaultMaxSize
	MaxAge    time.Duration // after which a new file is begun; 0 means never
	MaxFiles  int           // files that are kept; 0 means DefaultMaxFiles
	Sync      time.Duration // how long a line may wait for the disk; 0 means not at all
	Refuse    bool          // have Admit refuse when lines can't be written
	Version   string        // of this program
	Logger    zerolog.Logger

	// For tests; zero means what the constants say.
	open         func(name string, flag int) (file, error)
	queueLength  int
	writePause   time.Duration
	retryPause   time.Duration
	lockPatience time.Duration
}

func (o Options) withDefaults() Options {
	o.Arguments, o.Code = cmp.Or(o.Arguments, Digest), cmp.Or(o.Code, Full)
	o.MaxSize, o.MaxFiles = cmp.Or(o.MaxSize, DefaultMaxSize), cmp.Or(o.MaxFiles, DefaultMaxFiles)
	o.queueLength = cmp.Or(o.queueLength, queueLength)
	o.writePause = cmp.Or(o.writePause, writePause)
	o.retryPause = cmp.Or(o.retryPause, retryPause)
	o.lockPatience = cmp.Or(o.lockPatience, lockPatience)
	if o.open == nil {
		o.open = openFile
	}
	return o
}

// A Log writes an audit log. It is safe for concurrent use. Make one with
// [Open], and Close it.
type Log struct {
	opts    Options
	encoder encoder
	store   *store // the writer's alone; nil until it is open
	queue   chan Entry
	stop    chan struct{} // closed by Close
	done    chan struct{} // closed when the writer has ended
	closed  atomic.Bool

	admitted atomic.Int64 // admitted and not recorded yet
	weight   atomic.Int64 // of what is in the queue, bytes
	dropped  atomic.Uint64
	failure  atomic.Pointer[error] // why writing does not work now; nil if it does

	synced chan struct{} // has a token when it is time to sync; the writer's alone
	due    *time.Timer   // gives that token; nil while nothing waits for the disk
}

// Open locks the folder and goes on behind its last line with one that tells of
// the start. Without Options.Refuse a folder that can't be used is no error: it
// is tried again, and Status says why; entries wait meanwhile. One that another
// process writes always is.
// The caller must Close it.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{
		opts: o, queue: make(chan Entry, o.queueLength), stop: make(chan struct{}), done: make(chan struct{}),
		synced: make(chan struct{}, 1),
	}
	start, err := l.open(o)
	if err != nil && (o.Refuse || errors.Is(err, ErrInUse)) {
		return nil, err
	}
	if err != nil {
		l.failure.Store(&err)
		o.Logger.Error().Err(err).Msg("open audit log: it is tried again")
	}
	go l.run(start) // ends with Close
	return l, nil
}

// open gets hold of the folder. It returns the line that tells of the start.
func (l *Log) open(o Options) (Line, error) {
	s, f, err := openStore(o)
	if err != nil {
		return Line{}, err
	}
	l.encoder = encoder{arguments: o.Arguments, code: o.Code}
	if l.encoder.key, err = readKey(o.Dir, true); err != nil {
		return Line{}, errors.Join(err, s.close())
	}
	l.store = s
	return l.startLine(f), nil
}

// startLine is the line of a start, which tells what was found.
func (l *Log) startLine(f found) Line {
	line := Line{Time: time.Now().UTC(), Kind: KindStart, Problem: f.problem}
	line.Detail = fmt.Sprintf("bridged %s, pid %d", l.opts.Version, os.Getpid())
	if f.detail != "" {
		line.Detail += "; " + f.detail
	}
	if f.detail != "" || f.problem != "" {
		l.opts.Logger.Warn().Str("detail", f.detail).Str("problem", f.problem).Msg("open audit log")
	}
	return line
}

// ErrUnwritable is why calls are refused that need a line in the log.
var ErrUnwritable = errors.New("the audit log cannot be written")

// Admit is to be asked before a run or a call whose entry will be recorded. With
// Options.Refuse it returns ErrUnwritable when there would be no room for the
// entry; if it does not, Record must follow.
func (l *Log) Admit() error {
	if !l.opts.Refuse {
		return nil
	}
	if err := l.failure.Load(); err != nil {
		return fmt.Errorf("%w, and audit.on_error is refuse: %v", ErrUnwritable, *err)
	}
	if l.admitted.Add(1)+int64(len(l.queue)) > int64(l.opts.queueLength) || l.weight.Load() > queueBytes {
		l.admitted.Add(-1)
		return fmt.Errorf("%w fast enough, and audit.on_error is refuse: %d entries wait for the disk", ErrUnwritable, len(l.queue))
	}
	return nil
}

// Record queues an entry. It never blocks: one for which there is no room is
// counted, and logged as a gap later. After Close it does nothing.
func (l *Log) Record(e Entry) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if l.opts.Refuse && (e.Kind == KindRun || e.Kind == KindCall) {
		defer l.admitted.Add(-1) // after the send, so that its place is never another's
	}
	if l.weight.Add(e.weight()) > queueBytes && !l.opts.Refuse {
		l.drop(e)
		return
	}
	select {
	case l.queue <- e:
	default:
		l.drop(e)
	}
}

func (l *Log) drop(e Entry) {
	l.weight.Add(-e.weight())
	l.dropped.Add(1)
}

// Status is how a log is.
type Status struct {
	Waiting int    // entries that are not written yet
	Dropped uint64 // entries that the next gap will stand for
	Error   error  // why writing does not work now; nil if it does
}

// Status returns how the log is now.
func (l *Log) Status() Status {
	s := Status{Waiting: len(l.queue), Dropped: l.dropped.Load()}
	if err := l.failure.Load(); err != nil {
		s.Error = *err
	}
	return s
}

// Close writes what is queued, as far as the disk lets it, and returns when the
// folder is free for another process.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	close(l.stop)
	<-l.done
	var failed error
	if err := l.failure.Load(); err != nil {
		failed = *err
	}
	if l.store == nil {
		return failed
	}
	return errors.Join(failed, l.store.close())
}
