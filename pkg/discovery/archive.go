package discovery

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"
)

// Bounds of an [Archive]. Past any of them the lists that were used longest ago
// are dropped.
const (
	maxArchiveFile  = 16 << 20 // bytes; a longer list is not kept
	maxArchiveFiles = 512
	maxArchiveTotal = 256 << 20 // bytes

	// maxArchiveHead bounds the first line of a file, in bytes.
	maxArchiveHead = 64 << 10
)

const (
	// archiveVersion is the version of the form of the files.
	archiveVersion = 1

	archiveSuffix = ".tools"
	learntName    = "learnt.json"

	// touchAfter is how precisely the time of a list's last use is known.
	touchAfter = time.Hour

	// debrisAfter is the age past which a file that was being written is what a
	// daemon has left that was killed.
	debrisAfter = time.Hour
)

// A KeptList is a server's list of tools as an [Archive] keeps it.
type KeptList struct {
	Digest  string            // of the definition, see [Server.Digest]
	Written string            // the digest of the definition before its variables were replaced
	Server  string            // a name of the server
	Name    string            // what the server calls itself
	Version string            // which version it says that it is
	Listed  time.Time         // when the server gave the list
	Warning string            // why the list may be incomplete
	Count   int               // of the tools
	Tools   []json.RawMessage // as the server wrote them; nil in [Archive.Lists]
}

// An Archive keeps lists of tools, and what was learnt of their results, in a
// folder: one file a definition, whose name is the definition's digest. Nothing
// of a definition itself is in it. Any number of processes may use one folder;
// a file is replaced as a whole. It is safe for concurrent use.
type Archive struct {
	dir string

	mu     sync.Mutex        // guards the fields below
	likes  map[string]string // digests of the latest lists, by KeptList.Written
	looked time.Time         // when that was read from the disk
}

// NewArchive returns the archive in a folder, which is made when it is needed.
func NewArchive(dir string) *Archive { return &Archive{dir: dir} }

// archiveHead is the first line of a file. What follows are the tools, as a JSON
// array.
type archiveHead struct {
	Form    int       `json:"bridged_tools"`
	Digest  string    `json:"digest"`
	Written string    `json:"written,omitempty"` // earlier files have none
	Server  string    `json:"server"`
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Listed  time.Time `json:"listed"`
	Warning string    `json:"warning,omitempty"`
	Count   int       `json:"count"`
	Bytes   int       `json:"bytes"`
	Sum     string    `json:"sha256"`
}

func (h archiveHead) list() KeptList {
	return KeptList{
		Digest: h.Digest, Written: h.Written, Server: h.Server, Name: h.Name, Version: h.Version, Listed: h.Listed, Warning: h.Warning, Count: h.Count,
	}
}

var archiveDigest = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (a *Archive) path(digest string) string { return filepath.Join(a.dir, digest+archiveSuffix) }

// Save keeps a list in place of the one before of the same definition.
func (a *Archive) Save(l KeptList) error {
	if !archiveDigest.MatchString(l.Digest) {
		return fmt.Errorf("keeping tools: %q is no digest", clip(l.Digest))
	}
	body := arrayOf(l.Tools)
	sum := sha256.Sum256(body)
	head, err := json.Marshal(archiveHead{
		Form: archiveVersion, Digest: l.Digest, Written: clip(l.Written), Server: clip(l.Server), Name: clip(l.Name), Version: clip(l.Version),
		Listed: l.Listed.UTC().Round(0), Warning: clip(l.Warning), Count: len(l.Tools), Bytes: len(body), Sum: hex.EncodeToString(sum[:]),
	})
	if err != nil {
		return fmt.Errorf("keeping tools: %w", err)
	}
	text := slices.Concat(head, []byte("\n"), body)
	if len(text) > maxArchiveFile {
		return fmt.Errorf("keeping tools: the list has %d MiB, and %d is the limit", len(text)>>20, maxArchiveFile>>20)
	}
	if err := a.write(a.path(l.Digest), text); err != nil {
		return fmt.Errorf("keeping tools: %w", err)
	}
	a.noteLike(l)
	return a.trim(maxArchiveFiles, maxArchiveTotal)
}

// arrayOf writes tools as a JSON array, each as its server wrote it.
func arrayOf(tools []json.RawMessage) []byte {
	body := []byte{'['}
	for i, t := range tools {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, t...)
	}
	return append(body, ']')
}

// write replaces a file in one step.
func (a *Archive) write(path string, text []byte) error {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(path, text, 0o600, renameio.WithTempDir(a.dir))
}

// Load returns the list of a definition. The error is an [fs.ErrNotExist] when
// there is none, and says what is wrong with one that can't be used.
func (a *Archive) Load(digest string) (KeptList, error) {
	if !archiveDigest.MatchString(digest) {
		return KeptList{}, fs.ErrNotExist
	}
	path := a.path(digest)
	l, used, err := readKept(path, digest)
	if err != nil {
		return KeptList{}, err
	}
	if time.Since(used) > touchAfter {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // else it is dropped earlier than need be
	}
	return l, nil
}

func readKept(path, digest string) (KeptList, time.Time, error) {
	text, used, err := readRegular(path, maxArchiveFile)
	if err != nil {
		return KeptList{}, used, err
	}
	line, body, _ := bytes.Cut(text, []byte("\n"))
	head, err := parseHead(line, digest)
	if err != nil {
		return KeptList{}, used, fmt.Errorf("reading %s: %w", path, err)
	}
	sum := sha256.Sum256(body)
	l := head.list()
	if len(body) != head.Bytes || hex.EncodeToString(sum[:]) != head.Sum {
		return KeptList{}, used, fmt.Errorf("reading %s: %w: its tools are not those that were written", path, errDamaged)
	}
	if err := json.Unmarshal(body, &l.Tools); err != nil {
		return KeptList{}, used, fmt.Errorf("reading %s: %w: %w", path, errDamaged, err)
	}
	return l, used, nil
}

// errDamaged is a file that is not what was written.
var errDamaged = errors.New("it is damaged")

func parseHead(line []byte, digest string) (archiveHead, error) {
	var h archiveHead
	if err := json.Unmarshal(line, &h); err != nil {
		return h, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if h.Form != archiveVersion {
		return h, fmt.Errorf("it is of another version (%d)", h.Form)
	}
	if h.Digest != digest {
		return h, fmt.Errorf("%w: it is of another definition", errDamaged)
	}
	return h, nil
}

// readRegular reads a file within a limit, and returns when it was last
// changed. It does not wait for what is no file.
func readRegular(path string, limit int64) ([]byte, time.Time, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, fmt.Errorf("reading %s: it is no regular file", path)
	}
	if info.Size() > limit {
		return nil, time.Time{}, fmt.Errorf("reading %s: it has %d bytes, and %d is the limit", path, info.Size(), limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return text, info.ModTime(), err
}

// likesFor is how long it is known which lists there are, for [Archive.LoadLike].
// Other processes may write some.
const likesFor = time.Minute

// LoadLike returns the latest list of a definition that is written alike, and
// came to another one with the variables of another environment or folder. The
// error is an [fs.ErrNotExist] when there is none.
func (a *Archive) LoadLike(written string) (KeptList, error) {
	digest, err := a.like(written)
	if err != nil {
		return KeptList{}, err
	}
	return a.Load(digest)
}

func (a *Archive) like(written string) (digest string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.likes == nil || time.Since(a.looked) > likesFor {
		lists, err := a.Lists()
		if err != nil {
			return "", err
		}
		slices.SortStableFunc(lists, func(a, b KeptList) int { return a.Listed.Compare(b.Listed) })
		a.likes, a.looked = map[string]string{}, time.Now()
		for _, l := range lists {
			a.likes[l.Written] = l.Digest
		}
	}
	if digest = a.likes[written]; digest == "" || written == "" {
		return "", fs.ErrNotExist
	}
	return digest, nil
}

// noteLike takes in a list that was saved.
func (a *Archive) noteLike(l KeptList) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.likes != nil {
		a.likes[l.Written] = l.Digest
	}
}

// forgetLikes has it read again which lists there are.
func (a *Archive) forgetLikes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.likes = nil
}

// Lists returns what is known of all lists without their tools, by server. Files
// that can't be used are left out.
func (a *Archive) Lists() ([]KeptList, error) {
	files, err := a.files()
	if err != nil {
		return nil, err
	}
	lists := []KeptList{}
	for _, f := range files {
		if l, err := readHead(f.path, strings.TrimSuffix(filepath.Base(f.path), archiveSuffix)); err == nil {
			lists = append(lists, l)
		}
	}
	slices.SortStableFunc(lists, func(a, b KeptList) int { return strings.Compare(a.Server, b.Server) })
	return lists, nil
}

func readHead(path, digest string) (KeptList, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return KeptList{}, fs.ErrNotExist
	}
	f, err := os.Open(path)
	if err != nil {
		return KeptList{}, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	line, err := bufio.NewReader(io.LimitReader(f, maxArchiveHead)).ReadBytes('\n')
	if err != nil {
		return KeptList{}, err
	}
	h, err := parseHead(line, digest)
	return h.list(), err
}

// Drop drops the list of a definition, if there is one.
func (a *Archive) Drop(digest string) error {
	if !archiveDigest.MatchString(digest) {
		return nil
	}
	if err := os.Remove(a.path(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("dropping kept tools: %w", err)
	}
	a.forgetLikes()
	return nil
}

// Clear drops all lists, and what was learnt, and returns how many lists there
// were.
func (a *Archive) Clear() (int, error) {
	files, err := a.files()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, f := range files {
		if err := a.Drop(strings.TrimSuffix(filepath.Base(f.path), archiveSuffix)); err != nil {
			return n, err
		}
		n++
	}
	if err := os.Remove(filepath.Join(a.dir, learntName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return n, fmt.Errorf("dropping what was learnt: %w", err)
	}
	return n, nil
}

// An archiveFile is one list on disk.
type archiveFile struct {
	path string
	size int64
	used time.Time
}

// files returns the lists, the latest used first, and removes what was left of
// writing some.
func (a *Archive) files() ([]archiveFile, error) {
	entries, err := os.ReadDir(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading kept tools: %w", err)
	}
	var files []archiveFile
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another daemon has dropped it
		}
		path := filepath.Join(a.dir, e.Name())
		digest, ours := strings.CutSuffix(e.Name(), archiveSuffix)
		switch {
		case ours && archiveDigest.MatchString(digest):
			files = append(files, archiveFile{path, info.Size(), info.ModTime()})
		case isDebris(e.Name()) && info.Mode().IsRegular() && time.Since(info.ModTime()) > debrisAfter:
			_ = os.Remove(path) // it is tried again
		}
	}
	slices.SortFunc(files, func(a, b archiveFile) int { return b.used.Compare(a.used) })
	return files, nil
}

// isDebris reports whether a file has the name of one that is being written.
func isDebris(name string) bool {
	return strings.HasPrefix(name, ".") && (strings.Contains(name, archiveSuffix) || strings.Contains(name, learntName))
}

// trim drops the lists that are too many or too much together.
func (a *Archive) trim(count int, total int64) error {
	files, err := a.files()
	if err != nil {
		return err
	}
	for i, f := range files {
		total -= f.size
		if i < count && total >= 0 {
			continue
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("dropping kept tools: %w", err)
		}
	}
	return nil
}

// SaveLearnt keeps what a catalogue has learnt, together with what is kept
// already: another process may have learnt that.
func (a *Archive) SaveLearnt(c *Catalog) error {
	_ = a.LoadLearnt(c) // what can't be read is replaced
	text, err := c.ExportLearnt()
	if err != nil {
		return err
	}
	if err := a.write(filepath.Join(a.dir, learntName), text); err != nil {
		return fmt.Errorf("keeping what was learnt: %w", err)
	}
	return nil
}

// LoadLearnt gives a catalogue what was learnt before. The error is an
// [fs.ErrNotExist] when nothing is kept.
func (a *Archive) LoadLearnt(c *Catalog) error {
	text, _, err := readRegular(filepath.Join(a.dir, learntName), maxKeptLessons)
	if err != nil {
		return err
	}
	return c.ImportLearnt(text)
}
