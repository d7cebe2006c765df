package proxy

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	// reapGrace is how long what a server has started may go on after the
	// daemon was killed. The end of their streams ends most by themselves.
	reapGrace = time.Second

	// reapTime bounds the work of a reaper: what is killed may have been busy
	// starting more.
	reapTime = 10 * time.Second
)

// A reaper is a process that outlives the daemon when that is killed. The kernel
// ends a server's first process then, at least on Linux, but not what that has
// started: the real server, when the first is npx or a shell. The reaper is told
// each process group that is started and that is gone, on its stdin, and ends at
// its end what is left of them, by [Reap].
type reaper struct {
	argv []string // nil for no reaper
	mark string   // what the environments of all its servers hold
	log  zerolog.Logger

	mu     sync.Mutex // guards the fields below
	groups map[int]bool
	stdin  *os.File // nil while it does not run
	cmd    *exec.Cmd
}

// add tells that a group was started. It starts the reaper, if need be.
func (r *reaper) add(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.groups[group] = true
	if len(r.argv) == 0 || r.stdin != nil && r.tell("+", group) {
		return
	}
	r.buryLocked()
	if err := r.startLocked(); err != nil {
		r.log.Warn().Err(err).Msg("start reaper of servers")
		return
	}
	for g := range r.groups {
		r.tell("+", g)
	}
}

// remove tells that nothing is left of a group.
func (r *reaper) remove(group int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, group)
	if r.stdin != nil {
		r.tell("-", group)
	}
}

// tell reports whether the reaper is there to read it. One that somebody has
// stopped does not stop the daemon.
func (r *reaper) tell(sign string, group int) bool {
	_ = r.stdin.SetWriteDeadline(time.Now().Add(time.Second)) // a pipe has deadlines
	_, err := fmt.Fprintf(r.stdin, "%s%d\n", sign, group)
	return err == nil
}

func (r *reaper) startLocked() error {
	cmd := exec.Command(r.argv[0], append(slices.Clone(r.argv[1:]), r.mark)...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's signals are for the daemon
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close() //nolint:errcheck // the reaper has its own
	cmd.Stdin = theirs
	if err := cmd.Start(); err != nil {
		_ = ours.Close() // nobody reads it
		return err
	}
	r.cmd, r.stdin = cmd, ours
	return nil
}

// buryLocked ends the reaper, if there is one, and waits for it.
func (r *reaper) buryLocked() {
	if r.stdin == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.cmd.Wait()         // killed, or for a reason that the next one will tell
	_ = r.stdin.Close()      // after it, or it would reap
	r.stdin, r.cmd = nil, nil
}

// close ends the reaper. All groups must have been removed.
func (r *reaper) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buryLocked()
}

// Reap is what the command of [Options].Reaper does, with the argument that it
// is given: it reads in until that ends, and then kills what the servers of the
// proxy at the other end have left, which is nothing unless that was killed. It
// touches nothing else.
func Reap(in io.Reader, mark string) {
	groups := map[int]bool{}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		sign, number := lines.Text()[:min(1, len(lines.Text()))], strings.TrimLeft(lines.Text(), "+-")
		group, err := strconv.Atoi(number)
		switch {
		case err != nil || group <= 1:
			continue // no group of ours
		case sign == "+":
			groups[group] = true
		case sign == "-":
			delete(groups, group)
		}
	}
	if len(groups) == 0 {
		return
	}
	time.Sleep(reapGrace)
	for deadline := time.Now().Add(reapTime); time.Now().Before(deadline); time.Sleep(surveyPause) {
		if !killAll(groups, mark) {
			return
		}
	}
}

// killAll reports whether there was anything to kill.
func killAll(groups map[int]bool, mark string) (found bool) {
	for group := range groups {
		if syscall.Kill(-group, syscall.SIGKILL) == nil {
			found = true
		}
	}
	for _, pid := range marked(mark) {
		if pid != os.Getpid() && syscall.Kill(pid, syscall.SIGKILL) == nil {
			found = true
		}
	}
	return found
}
