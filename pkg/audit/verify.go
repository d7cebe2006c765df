package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A Report is what [Verify] found.
type Report struct {
	Files  int
	Lines  uint64
	First  uint64 // seq of the first line
	Last   Head   // the last line
	Starts int
	Gaps   uint64   // lines that could not be written, by the log's own account
	Notes  []string // what is no sign of change, and worth to know
}

// A BreakError says where a log does not hold, the first place only.
type BreakError struct {
	File string // path
	Line int    // counted from 1; 0 for the file as a whole
	Why  string
}

func (e *BreakError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Why)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Why)
}

// tornPatience is how long Verify waits for a line that is being written.
const tornPatience = time.Second

// A verifier follows the chain.
type verifier struct {
	report Report
	chain  chain
	begun  bool
	last   string          // path of the file before
	heads  []Head          // lines to be met
	missed map[uint64]bool // seqs of heads that were not met yet
	oldest string          // as the newest first line says
}

// Verify checks the log in dir: each line, the chain over all files, the head
// file, and that the lines named by anchors are there; an anchor's File is not
// looked at. The error is a [*BreakError] when the log does not hold.
func Verify(dir string, anchors ...Head) (Report, error) {
	// Read before the files are listed: it names no line that comes later.
	head, headErr := settledHead(dir)
	list, err := numbers(dir)
	if err != nil {
		return Report{}, err
	}
	switch {
	case len(list) == 0:
		return Report{}, &BreakError{File: dir, Why: "there is no audit log"}
	case headErr != nil:
		return Report{}, &BreakError{File: filepath.Join(dir, "head"), Why: headErr.Error()}
	case head == nil:
		return Report{}, &BreakError{File: filepath.Join(dir, "head"), Why: "the head file is missing"}
	}
	var paths []string
	for i, n := range list {
		if i > 0 && n != list[i-1]+1 {
			return Report{}, &BreakError{File: filepath.Join(dir, fileName(list[i-1]+1)), Why: "the file is missing"}
		}
		paths = append(paths, filepath.Join(dir, fileName(n)))
	}
	v := newVerifier(append(anchors[:len(anchors):len(anchors)], *head))
	if err := v.files(paths); err != nil {
		return v.report, err
	}
	if behind := v.chain.seq - min(v.chain.seq, head.Seq); behind > 0 {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("the head file does not name the last %d lines: they were written just now, or just before the daemon was killed", behind))
	}
	if first := fileName(list[0]); v.oldest != "" && first > v.oldest {
		return v.report, &BreakError{File: filepath.Join(dir, v.oldest), Why: "the file is missing: later ones say that it was kept"}
	}
	return v.report, v.unmet(paths[len(paths)-1])
}

// VerifyFiles checks files, the oldest first, that were kept apart from their
// folder: each line, and the chain over them.
func VerifyFiles(paths []string, anchors ...Head) (Report, error) {
	v := newVerifier(anchors)
	if err := v.files(paths); err != nil {
		return v.report, err
	}
	return v.report, v.unmet(paths[len(paths)-1])
}

func newVerifier(heads []Head) *verifier {
	v := &verifier{heads: heads, missed: map[uint64]bool{}}
	for _, h := range heads {
		v.missed[h.Seq] = true
	}
	return v
}

func (v *verifier) files(paths []string) error {
	for i, path := range paths {
		before := v.chain.seq
		if err := v.file(path); err != nil {
			return err
		}
		if v.chain.seq == before && i < len(paths)-1 {
			return &BreakError{File: path, Why: "the file is empty, and there are later ones"}
		}
		v.last = path
		v.report.Files++
	}
	return nil
}

// file checks one file. A line that is being written is waited for.
func (v *verifier) file(path string) error {
	n, offset := 0, int64(0)
	each := func(raw []byte, next int64) error {
		n++
		offset = next
		if why := v.line(path, n, raw); why != "" {
			return &BreakError{File: path, Line: n, Why: why}
		}
		return nil
	}
	err := scanFile(path, 0, each)
	for end := time.Now().Add(tornPatience); errors.Is(err, errTorn) && time.Now().Before(end); {
		if !growing(path, offset) {
			break
		}
		err = scanFile(path, offset, each)
	}
	_, broken := errors.AsType[*BreakError](err)
	switch {
	case err == nil || broken:
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return err
	}
	return &BreakError{File: path, Line: n + 1, Why: err.Error()}
}

// tornMoment is how long half a line may stand as it is and yet be one that is
// being written: the kernel holds writers up, in the middle of a write too, where
// more is written than the disk takes.
const tornMoment = 500 * time.Millisecond

// growing reports whether half a line behind offset changes within a moment.
func growing(path string, offset int64) bool {
	before, err := sizeOf(path)
	if err != nil {
		return false
	}
	for end := time.Now().Add(tornMoment); time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		if after, err := sizeOf(path); err != nil || after != before {
			return err == nil
		}
		if wholeAt(path, offset) {
			return true
		}
	}
	return false
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// wholeAt reports whether a whole line stands at an offset by now.
func wholeAt(path string, offset int64) bool {
	whole := false
	err := scanFile(path, offset, func([]byte, int64) error { whole = true; return io.EOF })
	return whole && errors.Is(err, io.EOF)
}

// line checks the next line and returns what is wrong with it.
func (v *verifier) line(path string, n int, raw []byte) (why string) {
	l, err := parse(raw)
	if err != nil {
		return err.Error()
	}
	if why := v.follows(n, l); why != "" {
		return why
	}
	v.begun = true
	v.chain = chain{seq: l.Seq, hash: l.Hash}
	for _, h := range v.heads {
		if h.Seq == l.Seq && h.Hash != l.Hash {
			return fmt.Sprintf("line %d of the log is not the one that was named: it has the hash %s, and %s was expected", l.Seq, l.Hash, h.Hash)
		}
	}
	delete(v.missed, l.Seq)
	if l.Problem != "" {
		return "when the daemon started, the log was not whole: " + l.Problem
	}
	v.count(path, n, l)
	return ""
}

// follows says in what a line does not follow the one before.
func (v *verifier) follows(n int, l Line) string {
	switch {
	case !v.begun && l.Kind != KindFile:
		return "the file's first lines are missing"
	case n == 1 && l.Kind != KindFile, n > 1 && l.Kind == KindFile:
		return "lines were removed or moved: a file begins with a line of the kind file, and has no other"
	case !v.begun && l.Prev == noHash && l.Seq != 1:
		return fmt.Sprintf("the log begins with line %d: what was before is missing", l.Seq)
	case !v.begun:
		return ""
	case l.Seq != v.chain.seq+1:
		return fmt.Sprintf("line %d of the log follows line %d: lines were removed, moved or put in", l.Seq, v.chain.seq)
	case l.Prev != v.chain.hash && n == 1:
		return fmt.Sprintf("the file does not go on where %s ends", filepath.Base(v.last))
	case l.Prev != v.chain.hash:
		return "the line does not follow the one before: that one was put in, or others were removed"
	}
	return ""
}

func (v *verifier) count(path string, n int, l Line) {
	r := &v.report
	if r.Lines == 0 {
		r.First = l.Seq
	}
	r.Lines++
	r.Last = Head{File: filepath.Base(path), Seq: l.Seq, Hash: l.Hash}
	switch l.Kind {
	case KindFile:
		v.oldest = l.Oldest
	case KindStart:
		r.Starts++
	case KindGap:
		r.Gaps += l.Missing
		r.Notes = append(r.Notes, fmt.Sprintf("%s:%d: %d lines could not be written: %s", path, n, l.Missing, l.Detail))
	}
}

// unmet says which of the lines that were named did not come.
func (v *verifier) unmet(path string) error {
	for _, h := range v.heads {
		if !v.missed[h.Seq] {
			continue
		}
		if h.Seq < v.report.First {
			v.report.Notes = append(v.report.Notes, fmt.Sprintf("line %d is older than what is kept", h.Seq))
			continue
		}
		return &BreakError{File: path, Why: fmt.Sprintf("the log ends with line %d, and had a line %d: the newest were removed", v.report.Last.Seq, h.Seq)}
	}
	return nil
}

// HeadOf returns the log's last line.
func HeadOf(dir string) (Head, error) {
	list, err := numbers(dir)
	if err != nil {
		return Head{}, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		end, err := (&store{dir: dir}).endOf(list[i])
		if err != nil {
			return Head{}, err
		}
		if end.last == nil {
			continue
		}
		l, err := parse(end.last)
		if err != nil {
			return Head{}, fmt.Errorf("%s: the last line: %w", fileName(list[i]), err)
		}
		return Head{File: fileName(list[i]), Seq: l.Seq, Hash: l.Hash}, nil
	}
	return Head{}, fmt.Errorf("%s: there is no audit log", dir)
}
