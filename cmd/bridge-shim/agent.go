package main

import (
	"bufio"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// maxLine is how much of a message from the agent is held together so that
	// it can be answered if the daemon dies. The daemon refuses longer ones.
	maxLine = 20 << 20

	// readAhead lets the end of stdin be seen while a daemon is being started.
	readAhead = 4

	// watchPeriod is how often it is checked whether the agent still is there.
	watchPeriod = 500 * time.Millisecond
)

// A piece is a line of the agent's, or a part of one that is longer than
// maxLine.
type piece struct {
	data        []byte
	first, last bool
}

// An agent is the two pipes to the process that started us.
type agent struct {
	lines chan piece    // closed at the end of stdin
	eof   chan struct{} // closed then too, though lines may still hold some
	gone  chan struct{} // closed when the agent is gone in another way

	// direct handles a piece on the reading goroutine and reports whether it
	// could. The way through lines costs the agent a thread switch a message.
	direct func(piece) bool
	queued atomic.Int64 // pieces in lines and in the hands of who took them

	once sync.Once
	mu   sync.Mutex // one line is written at a time
	out  *os.File
}

func newAgent(stdout *os.File) *agent {
	return &agent{
		lines: make(chan piece, readAhead),
		eof:   make(chan struct{}),
		gone:  make(chan struct{}),
		out:   stdout,
	}
}

// start reads stdin and watches the agent until the process ends.
func (a *agent) start(stdin *os.File) {
	go a.read(stdin)
	go a.watch(os.Getppid())
}

// read ends with stdin.
func (a *agent) read(stdin *os.File) {
	defer close(a.eof)
	defer close(a.lines)
	r := bufio.NewReaderSize(stdin, 64<<10)
	p := piece{first: true}
	for {
		part, err := r.ReadSlice('\n')
		p.data = append(p.data, part...)
		full := errors.Is(err, bufio.ErrBufferFull)
		if full && len(p.data) < maxLine {
			continue
		}
		p.last = !full
		if err != nil && !full && len(p.data) > 0 {
			p.data = append(p.data, '\n') // the last line may lack its end
		}
		if len(p.data) > 0 {
			a.hand(p)
		}
		if err != nil && !full {
			return
		}
		p = piece{first: p.last}
	}
}

// hand passes a piece on, after those before it.
func (a *agent) hand(p piece) {
	if a.queued.Load() == 0 && a.direct != nil && a.direct(p) {
		return
	}
	a.queued.Add(1)
	a.lines <- p
}

// watch notices what reading does not: a parent that died while another
// process holds the pipes, and a stdout that nobody reads any more.
func (a *agent) watch(parent int) {
	for {
		time.Sleep(watchPeriod)
		if os.Getppid() != parent || brokenPipe(a.out) {
			a.leave()
			return
		}
	}
}

func (a *agent) leave() { a.once.Do(func() { close(a.gone) }) }

// write sends the agent a whole line.
func (a *agent) write(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.out.Write(line); err != nil {
		a.leave()
	}
}

// brokenPipe reports whether f is a pipe without a reader. For a pipe's writing
// end, being readable means just that. Other kinds of files tell when written to.
func brokenPipe(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	fd := int(f.Fd())
	if fd >= 1024 { // more than a set holds
		return false
	}
	var set syscall.FdSet
	mark(&set, fd)
	ready, err := selectNow(fd+1, &set)
	return err == nil && ready
}
