package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// A file is what a store writes to; tests have ones that fail.
type file interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Truncate(size int64) error
	Close() error
}

func openFile(name string, flag int) (file, error) { return os.OpenFile(name, flag, 0o600) }

// A store is the folder of a log that is written. One goroutine uses it.
type store struct {
	dir      string
	maxSize  int64
	maxAge   time.Duration
	maxFiles int
	open     func(name string, flag int) (file, error)

	lock   *flock.Flock
	head   *os.File
	file   file
	number int
	size   int64     // of the whole lines in file
	born   time.Time // of file
	dirty  bool      // file may have more than size bytes
	chain  chain
	buf    []byte
}

// maxKept is the buffer that a store keeps between writes, in bytes.
const maxKept = 1 << 20

// A found is what a start has to tell of what was there before.
type found struct{ detail, problem string }

// openStore locks the folder and finds the chain's end.
func openStore(o Options) (*store, found, error) {
	s := &store{dir: o.Dir, maxSize: o.MaxSize, maxAge: o.MaxAge, maxFiles: o.MaxFiles, open: o.open}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, found{}, fmt.Errorf("making the audit log's folder: %w", err)
	}
	lock, err := lockFolder(s.dir, o.lockPatience)
	if err != nil {
		return nil, found{}, fmt.Errorf("opening the audit log in %s: %w", s.dir, err)
	}
	s.lock = lock
	f, err := s.recover()
	if err == nil {
		s.head, err = os.OpenFile(filepath.Join(s.dir, "head"), os.O_WRONLY|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, found{}, errors.Join(fmt.Errorf("opening the audit log in %s: %w", s.dir, err), s.close())
	}
	return s, f, nil
}

// recover opens the newest file, puts half a line aside, and finds the last
// whole one.
func (s *store) recover() (found, error) {
	s.chain = chain{hash: noHash}
	list, err := numbers(s.dir)
	if err != nil {
		return found{}, err
	}
	head, headErr := readHead(s.dir)
	if len(list) == 0 {
		return s.begin(head, headErr), s.create(1)
	}
	s.number = list[len(list)-1]
	if s.file, err = s.open(s.path(s.number), os.O_RDWR|os.O_APPEND); err != nil {
		return found{}, err
	}
	end, err := s.endOf(s.number)
	if err != nil {
		return found{}, err
	}
	var f found
	if end.torn > 0 {
		aside, err := s.putAside(end)
		if err != nil {
			return found{}, err
		}
		f.detail = fmt.Sprintf("half a line of %d bytes at the end of %s was put into %s", end.torn, fileName(s.number), aside)
	}
	s.size, s.born = end.end, s.bornOf()
	for i := len(list) - 2; end.last == nil && i >= 0; i-- { // a crash came right after a rotation
		if end, err = s.endOf(list[i]); err != nil {
			return found{}, err
		}
	}
	if end.last == nil {
		f.problem = s.begin(head, headErr).problem
		return f, nil
	}
	f.problem = s.resume(end.last, head, headErr)
	return f, nil
}

// begin starts where no line is left.
func (s *store) begin(head *Head, headErr error) found {
	if head != nil {
		s.chain.seq = head.Seq // so that missing lines show in seq
	}
	return checkHead(chain{}, head, headErr)
}

// resume goes on behind the last line, and says what is wrong there.
func (s *store) resume(last []byte, head *Head, headErr error) (problem string) {
	l, err := parse(last)
	if errors.Is(err, errShape) {
		if head != nil {
			s.chain.seq = head.Seq
		}
		return "the last line was " + errShape.Error()
	}
	s.chain = chain{seq: l.Seq, hash: l.Hash}
	if err != nil {
		return "the last line: " + err.Error()
	}
	f := checkHead(s.chain, head, headErr)
	if head != nil {
		s.chain.seq = max(l.Seq, head.Seq) // as in begin
	}
	return f.problem
}

// checkHead compares the last line with what the head file says of it.
func checkHead(last chain, head *Head, err error) found {
	switch {
	case err != nil:
		return found{problem: err.Error()}
	case head == nil && last.seq == 0, head != nil && head.Seq < last.seq:
		return found{}
	case head == nil:
		return found{problem: "there was no head file"}
	case head.Seq > last.seq:
		return found{problem: fmt.Sprintf("%d lines were missing at the end: the head file names line %d and the last one was %d", head.Seq-last.seq, head.Seq, last.seq)}
	case head.Hash != last.hash:
		return found{problem: fmt.Sprintf("the last line was not the one that the head file names (seq %d)", last.seq)}
	}
	return found{}
}

func (s *store) path(n int) string { return filepath.Join(s.dir, fileName(n)) }

func (s *store) endOf(n int) (ending, error) {
	f, err := os.Open(s.path(n))
	if err != nil {
		return ending{}, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return ending{}, err
	}
	return endOf(f, info.Size())
}

// putAside moves half a line out of the file.
func (s *store) putAside(end ending) (name string, err error) {
	half := make([]byte, min(end.torn, maxLine))
	if _, err := s.file.ReadAt(half, end.end); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading half a line: %w", err)
	}
	name = fmt.Sprintf("torn-%06d-%d", s.number, end.end)
	if err := os.WriteFile(filepath.Join(s.dir, name), half, 0o600); err != nil {
		return "", fmt.Errorf("putting half a line aside: %w", err)
	}
	return name, s.file.Truncate(end.end)
}

// bornOf is when the newest file was begun, as its first line says.
func (s *store) bornOf() time.Time {
	born := time.Now()
	err := scanFile(s.path(s.number), 0, func(raw []byte, _ int64) error {
		if l, err := parse(raw); err == nil {
			born = l.Time
		}
		return errStop
	})
	_ = err // then it counts as new
	return born
}

// create begins a file, whose first line is written with the next.
func (s *store) create(n int) error {
	f, err := s.open(s.path(n), os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	s.file, s.number, s.size, s.born, s.dirty = f, n, 0, time.Now(), false
	return nil
}

// append writes lines whole or, when it returns an error, not at all.
func (s *store) append(lines []Line) error {
	if s.dirty {
		if err := s.file.Truncate(s.size); err != nil {
			return fmt.Errorf("writing the audit log: taking back half a line: %w", err)
		}
		s.dirty = false
	}
	if err := s.rotate(); err != nil {
		return err
	}
	next, buf := s.chain, s.buf[:0]
	if s.size == 0 {
		lines = append([]Line{s.firstLine()}, lines...)
	}
	for _, l := range lines {
		var err error
		if buf, err = next.seal(buf, l); err != nil {
			return err
		}
	}
	if cap(buf) <= maxKept {
		s.buf = buf
	}
	s.dirty = true
	if _, err := s.file.Write(buf); err != nil {
		if s.file.Truncate(s.size) == nil {
			s.dirty = false
		}
		return fmt.Errorf("writing the audit log: %w", err)
	}
	s.dirty = false
	s.size += int64(len(buf))
	s.chain = next
	return nil
}

func (s *store) firstLine() Line {
	l := Line{Time: time.Now().UTC().Round(0), Kind: KindFile, Oldest: fileName(s.oldest())}
	if s.number > 1 {
		l.Detail = "after " + fileName(s.number-1)
	}
	return l
}

// oldest is the number of the first file that is kept.
func (s *store) oldest() int { return max(1, s.number-s.maxFiles+1) }

// rotate begins a new file if the present one is large or old, and removes those
// that are too many.
func (s *store) rotate() error {
	if s.size == 0 || (s.size < s.maxSize && (s.maxAge == 0 || time.Since(s.born) < s.maxAge)) {
		return nil
	}
	if err := s.sync(); err != nil {
		return err
	}
	old := s.file
	if err := s.create(s.number + 1); err != nil {
		return fmt.Errorf("beginning a file of the audit log: %w", err)
	}
	return errors.Join(old.Close(), s.prune())
}

func (s *store) prune() error {
	list, err := numbers(s.dir)
	if err != nil {
		return err
	}
	for _, n := range list {
		if n >= s.oldest() {
			break
		}
		if err := os.Remove(s.path(n)); err != nil {
			return fmt.Errorf("removing an old file of the audit log: %w", err)
		}
	}
	return nil
}

// sync brings what was written to the disk, and then names the last line in the
// head file: that one is never ahead of the log.
func (s *store) sync() error {
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("syncing the audit log: %w", err)
	}
	text, err := Head{File: fileName(s.number), Seq: s.chain.seq, Hash: s.chain.hash}.encode()
	if err != nil {
		return err
	}
	if _, err := s.head.WriteAt(text, 0); err != nil {
		return fmt.Errorf("writing the head file: %w", err)
	}
	return nil
}

func (s *store) close() error {
	var errs []error
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	if s.head != nil {
		errs = append(errs, s.head.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...) // which unlocks
}
