package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxFiles bounds the files that one sandbox has published.
	MaxFiles = 256

	// maxFileName and maxMIME bound what is said of one, in bytes.
	maxFileName = 128
	maxMIME     = 100

	// maxChunk bounds what one read of a file gives, in bytes.
	maxChunk = 512 << 10

	// maxReads bounds the reads that a sandbox answers at once: they share
	// its input with calls' replies. Others wait.
	maxReads = 8

	// maxStamp bounds what a chunk says to tell one state of a file from
	// another.
	maxStamp = 64

	// chunkTimeout is how long a sandbox may take to answer one read. Its
	// code may hold Python's global lock for seconds.
	chunkTimeout = 30 * time.Second
)

// Conditions that callers of CopyFile test.
var (
	// ErrNoFile means that nothing can be read at an address, now.
	ErrNoFile = errors.New("no such file")
	// ErrFileSize means that a file has more bytes than were asked for.
	ErrFileSize = errors.New("file too large")
)

// A File is one that code has handed to the user.
type File struct {
	URI  string // its address, unguessable
	Name string // without separators, control characters or a leading dot
	MIME string // as the code says, or "" if that was no type
	Size int64  // in bytes, when it was published
}

// filesBase is what the addresses of a sandbox's files begin with. The handle is
// no other's, so an address never names another sandbox's file.
func filesBase(handle string) string { return "bridged://session/" + handle + "/files/" }

// files are those of one sandbox.
type files struct {
	sandbox *Sandbox
	base    string
	reads   chan struct{} // holds a token per read under way

	mu      sync.Mutex // guards the fields below
	list    []numbered // in the order of their first publication
	changed func()     // told when list is another; may be nil
	waiting map[int64]chan inFrame
	last    int64 // id of the last read
}

// A numbered is a file and its number in the sandbox.
type numbered struct {
	File
	number int64
}

func newFiles(s *Sandbox, handle string) *files {
	return &files{
		sandbox: s, base: filesBase(handle),
		reads: make(chan struct{}, maxReads), waiting: map[int64]chan inFrame{},
	}
}

// watch says whom to tell of changes. It is not told of what is there already.
func (f *files) watch(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = changed
}

// tell tells of a change.
func (f *files) tell() {
	f.mu.Lock()
	changed := f.changed
	f.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// end tells that there are none any more, if there were.
func (f *files) end() {
	f.mu.Lock()
	some := len(f.list) > 0
	f.mu.Unlock()
	if some {
		f.tell()
	}
}

// all returns the files, until the sandbox ends.
func (f *files) all() []File {
	select {
	case <-f.sandbox.ended:
		return nil
	default:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]File, len(f.list))
	for i, n := range f.list {
		list[i] = n.File
	}
	return list
}

// take notes what a file frame announces. A frame that no harness of ours would
// send is passed over.
func (f *files) take(frame inFrame) (File, bool) {
	file := File{Name: frame.Name, MIME: frame.MIME, Size: max(frame.Size, 0)}
	if !validName(file.Name) {
		return File{}, false
	}
	if !validMIME(file.MIME) {
		file.MIME = ""
	}
	file.URI = f.base + EscapeName(file.Name)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, n := range f.list {
		if n.Name == file.Name {
			f.list[i] = numbered{file, frame.File}
			return file, true
		}
	}
	if len(f.list) >= MaxFiles {
		return File{}, false
	}
	f.list = append(f.list, numbered{file, frame.File})
	return file, true
}

// EscapeName returns a file's name as the last part of its address. The harness
// escapes the same characters.
func EscapeName(name string) string {
	// A path's escapes leave more than unreserved characters as they are.
	return strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

// validName reports whether a name is safe to show and to save as.
func validName(name string) bool {
	if name == "" || len(name) > maxFileName || !utf8.ValidString(name) || name[0] == '.' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || r == '\\' || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	})
}

// validMIME reports whether a type is one, without parameters.
func validMIME(mime string) bool {
	kind, rest, _ := strings.Cut(mime, "/")
	odd := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$&^_.+-", r)
	}
	return len(mime) <= maxMIME && kind != "" && rest != "" && !strings.ContainsFunc(kind, odd) && !strings.ContainsFunc(rest, odd)
}

// find returns the file at an address.
func (f *files) find(uri string) (numbered, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.list, func(n numbered) bool { return n.URI == uri })
	if i < 0 {
		return numbered{}, false
	}
	return f.list[i], true
}

// copy writes a file to w, in chunks of which each must fit the first. The error
// is ErrFileSize if it has more than most bytes, and then nothing was written.
func (f *files) copy(ctx context.Context, w io.Writer, uri string, most int64) (File, error) {
	n, ok := f.find(uri)
	if !ok {
		return File{}, ErrNoFile
	}
	select {
	case f.reads <- struct{}{}:
	case <-ctx.Done():
		return File{}, context.Cause(ctx)
	}
	defer func() { <-f.reads }()
	n.Size = -1 // until the first chunk tells
	stamp := ""
	for at := int64(0); n.Size < 0 || at < n.Size; {
		c, err := f.chunk(ctx, n.number, at)
		if err != nil {
			return File{}, fmt.Errorf("reading %s: %w", n.Name, err)
		}
		if n.Size < 0 {
			n.Size, stamp = c.Size, c.Stamp
		}
		if n.Size > most {
			return n.File, fmt.Errorf("reading %s: %w: it has %d bytes, and at most %d are read", n.Name, ErrFileSize, n.Size, most)
		}
		if err := fits(c, stamp, n.Size, at); err != nil {
			return File{}, fmt.Errorf("reading %s: %w", n.Name, err)
		}
		if _, err := w.Write(c.Data); err != nil {
			return File{}, err
		}
		at += int64(len(c.Data))
	}
	return n.File, nil
}

// fits holds a chunk to what the first one said: each is as long as asked for,
// so their number is bounded, and all are of one state of the file.
func fits(c inFrame, stamp string, size, at int64) error {
	if c.Size != size || c.Stamp != stamp || int64(len(c.Data)) != min(maxChunk, size-at) {
		return errors.New("it changed while it was read; publish it again once it is complete")
	}
	return nil
}

// chunk reads a part of a file.
func (f *files) chunk(ctx context.Context, number, at int64) (inFrame, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, chunkTimeout, fmt.Errorf("its sandbox does not answer within %s; wait until its code has ended", chunkTimeout))
	defer cancel()
	id, answer := f.await()
	defer f.forget(id)
	line, err := encode(readFrame{T: "read", ID: id, File: number, Offset: at, Length: maxChunk})
	if err != nil {
		return inFrame{}, err
	}
	select {
	case f.sandbox.out <- line:
	case <-f.sandbox.ended:
		return inFrame{}, fmt.Errorf("%w: its sandbox has ended", ErrNoFile)
	case <-ctx.Done():
		return inFrame{}, context.Cause(ctx)
	}
	select {
	case c := <-answer:
		return checkChunk(c)
	case <-f.sandbox.ended:
		return inFrame{}, fmt.Errorf("%w: its sandbox has ended", ErrNoFile)
	case <-ctx.Done():
		return inFrame{}, context.Cause(ctx)
	}
}

// checkChunk returns what is wrong with a chunk by itself, its own word first.
func checkChunk(c inFrame) (inFrame, error) {
	switch {
	case c.Error != nil && c.Error.Type == "FileNotFoundError":
		return inFrame{}, fmt.Errorf("%w: it was removed in the sandbox", ErrNoFile)
	case c.Error != nil:
		return inFrame{}, errors.New(head([]byte(printableText(c.Error.Message))))
	case c.Size < 0 || len(c.Stamp) > maxStamp:
		return inFrame{}, errors.New("its sandbox gave an answer without sense")
	}
	return c, nil
}

// printableText leaves out what a text from the sandbox could do to a terminal.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

func (f *files) await() (int64, <-chan inFrame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	answer := make(chan inFrame, 1)
	f.waiting[f.last] = answer
	return f.last, answer
}

func (f *files) forget(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.waiting, id)
}

// answer hands a chunk to who waits for it. One that nobody waits for is passed
// over, and so is a second.
func (f *files) answer(c inFrame) {
	f.mu.Lock()
	waiting := f.waiting[c.ID]
	delete(f.waiting, c.ID)
	f.mu.Unlock()
	if waiting != nil {
		waiting <- c // has room for one
	}
}

// Files returns what the code has published and can be read, the oldest first.
func (s *Sandbox) Files() []File { return s.files.all() }

// CopyFile writes the file at an address to w and says what it is now. The
// error is ErrNoFile if the sandbox has none there, and ErrFileSize, before
// anything is written, if the file has more than most bytes.
func (s *Sandbox) CopyFile(ctx context.Context, w io.Writer, uri string, most int64) (File, error) {
	return s.files.copy(ctx, w, uri, most)
}

// takeFile notes a file for the run under way, or else for the next one.
func (s *Sandbox) takeFile(frame inFrame) {
	file, ok := s.files.take(frame)
	if !ok {
		s.log.Debug().Str("name", head([]byte(frame.Name))).Msg("file left out")
		return
	}
	s.mu.Lock()
	r := s.run
	if r == nil {
		s.lateFiles = addFile(s.lateFiles, file)
	}
	s.mu.Unlock()
	if r != nil {
		r.publish(file)
	}
	s.files.tell()
}

// addFile appends a file, or replaces the one of the same address.
func addFile(list []File, file File) []File {
	list = slices.DeleteFunc(list, func(f File) bool { return f.URI == file.URI })
	return append(list, file)
}

// maxLost bounds the names of files that a notice tells.
const maxLost = 10

// loseFiles tells that what a run has published went with its sandbox.
func (r *Result) loseFiles() {
	if len(r.Files) == 0 {
		return
	}
	var names []string
	for _, f := range r.Files[:min(len(r.Files), maxLost)] {
		names = append(names, f.Name)
	}
	r.Notices = append(r.Notices, fmt.Sprintf("Files that this call published are gone with the sandbox (%d): %s.", len(r.Files), strings.Join(names, ", ")))
	r.Files = nil
}

// Watch has changed called when Files may return something else. Call it before
// the first run. changed must not block.
func (s *Session) Watch(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
}

// Files returns what the session's code has published and can be read, the
// oldest first. They go with the session's sandbox.
func (s *Session) Files() []File {
	if sb := s.Sandbox(); sb != nil {
		return sb.Files()
	}
	return nil
}

// CopyFile is [Sandbox.CopyFile] of the session's sandbox, which it wakes if it
// is paused. It does not wait for what runs.
func (s *Session) CopyFile(ctx context.Context, w io.Writer, uri string, most int64) (File, error) {
	sb, release, err := s.Use(ctx)
	switch {
	case err != nil:
		return File{}, fmt.Errorf("resuming the paused sandbox: %w", err)
	case sb == nil:
		return File{}, ErrNoFile
	}
	defer release()
	return sb.CopyFile(ctx, w, uri, most)
}
