package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestALineHasWhatItsEntrySays(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Version: "1.2.3"})
	began := time.Date(2026, 5, 4, 3, 2, 1, 987654321, time.FixedZone("", 7200))
	e := call(7)
	e.Time, e.Python, e.Detail = began, "second", "rule 3"
	l.Record(e)
	l.Record(Entry{Kind: KindRun, Session: "s", Code: "print(1 < 2)", Outcome: "error"})
	shut(t, l)
	list := all(t, dir)
	var kinds []Kind
	for i, line := range list {
		kinds = append(kinds, line.Kind)
		if line.Seq != uint64(i+1) || line.Time.IsZero() {
			t.Errorf("line %d: seq %d, time %v", i+1, line.Seq, line.Time)
		}
	}
	if diff := cmp.Diff([]Kind{KindFile, KindStart, KindCall, KindRun, KindStop}, kinds); diff != "" {
		t.Error(diff)
	}
	want := Line{
		Time: began.UTC(), Seq: 3, Kind: KindCall, Session: "abcdefgh", Python: "second", Client: "test 1", Server: "git", Tool: "log",
		Micros: 1500, Outcome: "ok", In: 10, Out: 7, Sources: []string{"web"}, Detail: "rule 3", Prev: list[1].Hash, Hash: list[2].Hash,
	}
	want.ArgumentsDigest, _ = DigestOf(dir, []byte(`{ "text": "some words <&>",  "n": 7 }`), false)
	if diff := cmp.Diff(want, list[2]); diff != "" {
		t.Error(diff)
	}
	if got := list[3].Code; got != "print(1 < 2)" {
		t.Errorf("code %q", got)
	}
	if text := linesOf(t, filepath.Join(dir, fileName(1)))[2]; !strings.Contains(text, `"time":"2026-05-04T01:02:01.987654321Z"`) {
		t.Errorf("the time is not RFC 3339 with nanoseconds: %s", text)
	}
	if !strings.Contains(list[1].Detail, "1.2.3") {
		t.Errorf("start: %+v", list[1])
	}
}

func TestNobodyElseMayReadTheLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	shut(t, open(t, Options{Dir: dir}))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 4 {
		t.Errorf("files: %v", entries)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

func TestFormsOfArgumentsAndCode(t *testing.T) {
	mask := strings.NewReplacer("s3cr3t-value", "[API_KEY]")
	raw := `{"b":1.50,"api_key":"k","Auth-Token":["t"],"max_tokens":9,"url":"https://x/?k=s3cr3t-value","a":{"s3cr3t-value":"<x>","password":null}}`
	big := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", maxArguments))
	for _, row := range []struct {
		name, raw       string
		arguments, code Form
		want            string // arguments, "" for a digest
		wantCode        bool
	}{
		{"digest", raw, Digest, Digest, "", false},
		{"masked", raw, Masked, Full, `{"Auth-Token":"[hidden]","a":{"[API_KEY]":"<x>","password":"[hidden]"},"api_key":"[hidden]","b":1.50,"max_tokens":9,"url":"https://x/?k=[API_KEY]"}`, true},
		{"full", raw, Full, Full, `{"Auth-Token":["t"],"a":{"[API_KEY]":"<x>","password":null},"api_key":"k","b":1.50,"max_tokens":9,"url":"https://x/?k=[API_KEY]"}`, true},
		{"full, and too large", big, Full, Full, "", true},
		{"no JSON", `{"a":`, Full, Full, `"{\"a\":"`, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := encoder{key: []byte("k"), arguments: row.arguments, code: row.code}
			l := c.line(Entry{Arguments: json.RawMessage(row.raw), Mask: mask, Code: "x = 1"})
			if string(l.Arguments) != row.want || (l.ArgumentsDigest == "") != (row.want != "") {
				t.Errorf("got  %s (%s)\nwant %s", l.Arguments, l.ArgumentsDigest, row.want)
			}
			if (l.Code != "") != row.wantCode || (l.CodeDigest == "") != row.wantCode {
				t.Errorf("code %q, digest %q", l.Code, l.CodeDigest)
			}
		})
	}
}

func TestDigestsTellEqualArgumentsAndNothingElse(t *testing.T) {
	c := encoder{key: []byte("k"), arguments: Digest}
	of := func(raw string) string { return c.line(Entry{Arguments: json.RawMessage(raw)}).ArgumentsDigest }
	if of(`{"a":1,"b":[2]}`) != of("{ \"b\" : [2],\n\"a\":1}") {
		t.Error("the order of keys and spaces make a difference")
	}
	for _, other := range []string{`{"a":1.0,"b":[2]}`, `{"a":"1","b":[2]}`, `{"a":1,"b":[2,2]}`, `{"a":12345678901234567890,"b":[2]}`} {
		if of(other) == of(`{"a":1,"b":[2]}`) {
			t.Errorf("%s has the same digest", other)
		}
	}
	if c2 := (encoder{key: []byte("other"), arguments: Digest}); c2.line(Entry{Arguments: json.RawMessage(`{}`)}).ArgumentsDigest == of(`{}`) {
		t.Error("digests do not depend on the key")
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	e := Entry{Kind: KindCall, Session: long, Python: long, Client: long, Server: long, Tool: long, Outcome: long, Detail: long, Code: long}
	for range 10_000 {
		e.Sources = append(e.Sources, long)
	}
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	l.Record(e)
	shut(t, l)
	mustVerify(t, dir)
	line := ofKind(all(t, dir), KindCall)[0]
	if line.Code != "" || line.CodeDigest == "" || len(line.Tool) > maxLabel+8 || len(line.Sources) != maxSources {
		t.Errorf("code %d bytes, tool %d bytes, %d sources", len(line.Code), len(line.Tool), len(line.Sources))
	}
}

func TestRotationKeepsTheChainAndTheNewestFiles(t *testing.T) {
	for _, row := range []struct {
		name string
		o    Options
		full bool
	}{
		{"by size", Options{MaxSize: 1200, MaxFiles: 3}, true},
		{"by age", Options{MaxAge: time.Nanosecond, MaxFiles: 3}, true},
		{"not at all", Options{MaxFiles: 3, MaxAge: time.Hour}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := written(t, 20, row.o)
			r := mustVerify(t, dir)
			if !row.full {
				if r.Files != 1 || r.First != 1 {
					t.Errorf("report: %+v", r)
				}
				return
			}
			if r.Files != 3 || r.First < 5 {
				t.Errorf("report: %+v", r)
			}
			for i, path := range filesOf(t, dir) {
				first, err := parse([]byte(linesOf(t, path)[0]))
				if err != nil || first.Kind != KindFile || first.Detail != "after "+fileName(numberOf(filepath.Base(path))-1) {
					t.Errorf("file %d begins with %+v, %v", i, first, err)
				}
			}
		})
	}
}

func TestALogGoesOnAfterAStop(t *testing.T) {
	dir := t.TempDir()
	for n := range 4 {
		l := open(t, Options{Dir: dir})
		l.Record(call(n))
		shut(t, l)
		if r := mustVerify(t, dir); r.Starts != n+1 || r.Files != 1 || len(r.Notes) != 0 {
			t.Fatalf("start %d: %+v", n+1, r)
		}
	}
}

func TestTwoDaemonsNeverWriteOneLog(t *testing.T) {
	dir := t.TempDir()
	first := open(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir, lockPatience: time.Millisecond}); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v, want %v", err, ErrInUse)
	}
	opened := make(chan error, 1)
	go func() {
		second, err := Open(Options{Dir: dir})
		if err == nil {
			err = second.Close()
		}
		opened <- err
	}()
	shut(t, first) // which the second one waits for
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	mustVerify(t, dir)
}

func TestEntriesFromManyGoroutinesAreAllThere(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxSize: 50_000, MaxFiles: 1000})
	const each, writers = 200, 16
	awaitHead(t, dir, 1) // without one there is nothing to verify
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			for n := range each {
				l.Record(call(w*each + n))
			}
		})
	}
	stop := make(chan struct{})
	done.Go(func() { // a reader meanwhile
		for {
			if _, err := Verify(dir); err != nil {
				t.Errorf("Verify beside the writer: %v", err)
			}
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	waitEmpty(t, l)
	close(stop)
	done.Wait()
	shut(t, l)
	mustVerify(t, dir)
	seen := map[int64]bool{}
	for _, line := range ofKind(all(t, dir), KindCall) {
		seen[line.Out] = true
	}
	if len(seen) != each*writers {
		t.Errorf("%d different calls, want %d", len(seen), each*writers)
	}
}

// awaitHead waits until the head file names a line, or a later one.
func awaitHead(t *testing.T, dir string, seq uint64) {
	t.Helper()
	eventually(t, "the head file is written", func() bool { return headSeq(dir) >= seq })
}

// headSeq is the line that the head file names, 0 if there is none yet.
func headSeq(dir string) uint64 {
	if h, err := readHead(dir); err == nil && h != nil {
		return h.Seq
	}
	return 0
}

// crashVar has a test binary write a log in a folder until it is killed.
const crashVar = "AUDIT_TEST_CRASH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashVar); dir != "" {
		before := headSeq(dir)
		l, err := Open(Options{Dir: dir, MaxSize: 20_000, MaxFiles: 1000, Sync: 5 * time.Millisecond})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for headSeq(dir) <= before { // the line of the start is not on the disk
			time.Sleep(time.Millisecond)
		}
		fmt.Println("writing")
		for n := 0; ; n++ {
			if l.Record(call(n)); n%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	os.Exit(m.Run())
}

func TestALogSurvivesBeingKilled(t *testing.T) {
	dir := t.TempDir()
	for round := range 6 {
		killWriter(t, dir, time.Duration(5+13*round)*time.Millisecond)
		half := round%2 == 0
		if half {
			tear(t, dir)
		}
		before := len(all(t, dir))
		l := open(t, Options{Dir: dir, MaxSize: 20_000, MaxFiles: 1000})
		l.Record(call(-1))
		shut(t, l)
		r := mustVerify(t, dir)
		if int(r.Lines) < before+3 || r.Starts != 2*(round+1) {
			t.Errorf("round %d: %d lines before, report %+v", round, before, r)
		}
		starts := ofKind(all(t, dir), KindStart)
		if told := strings.Contains(starts[len(starts)-1].Detail, "half a line of"); half && !told {
			t.Errorf("round %d: half a line is not told of: %+v", round, starts[len(starts)-1])
		}
	}
	aside, err := filepath.Glob(filepath.Join(dir, "torn-*"))
	if err != nil || len(aside) < 3 {
		t.Errorf("put aside: %v, %v", aside, err)
	}
}

func killWriter(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), crashVar+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Error(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

// tear leaves half a line, as a machine does that stops in the middle of a write.
func tear(t *testing.T, dir string) {
	t.Helper()
	files := filesOf(t, dir)
	newest := files[len(files)-1]
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, `{"time":"2026-01-01T00:00:00Z","seq":5,"ki`...)
	if err := os.WriteFile(newest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Verify(dir)
	if broken, ok := errors.AsType[*BreakError](err); !ok || !strings.Contains(broken.Why, "in the middle of a line") {
		t.Errorf("half a line: got %v", err)
	}
}

// A fullDisk is a file system on which room can run out.
type fullDisk struct {
	room   atomic.Int64 // bytes that can be written yet
	broken atomic.Bool  // nothing works, syncing neither
}

type fullFile struct {
	file
	disk *fullDisk
}

func (d *fullDisk) open(name string, flag int) (file, error) {
	if d.broken.Load() && flag&os.O_CREATE != 0 {
		return nil, syscall.EIO
	}
	f, err := openFile(name, flag)
	return fullFile{f, d}, err
}

// Write writes what there is room for, as the kernel does.
func (f fullFile) Write(b []byte) (int, error) {
	if f.disk.broken.Load() {
		return 0, syscall.EIO
	}
	left := f.disk.room.Add(-int64(len(b)))
	if left >= 0 {
		return f.file.Write(b)
	}
	n, err := f.file.Write(b[:max(0, int64(len(b))+left)])
	f.disk.room.Store(0)
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f fullFile) Truncate(size int64) error {
	if f.disk.broken.Load() {
		return syscall.EIO
	}
	return f.file.Truncate(size)
}

func (f fullFile) Sync() error {
	if f.disk.broken.Load() {
		return syscall.EIO
	}
	return f.file.Sync()
}

func TestAFullDiskLeavesAGapAndNoHole(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken: %v", broken), func(t *testing.T) {
			dir, disk := t.TempDir(), &fullDisk{}
			disk.room.Store(4000)
			l := open(t, Options{Dir: dir, open: disk.open, queueLength: 10, retryPause: time.Millisecond, MaxSize: 2000})
			n := 0
			for ; l.Status().Error == nil; n++ {
				l.Record(call(n))
				disk.broken.Store(broken && n > 5)
				time.Sleep(time.Millisecond)
			}
			for ; l.Status().Dropped < 5; n++ {
				l.Record(call(n))
			}
			if err := l.Admit(); err != nil {
				t.Errorf("on_error continue refuses: %v", err)
			}
			disk.broken.Store(false)
			disk.room.Store(1 << 20)
			eventually(t, "it is written again", func() bool { s := l.Status(); return s.Error == nil && s.Dropped == 0 && s.Waiting == 0 })
			l.Record(call(n))
			shut(t, l)
			r := mustVerify(t, dir)
			list := all(t, dir)
			calls := len(ofKind(list, KindCall))
			if r.Gaps < 5 || calls+int(r.Gaps) != n+1 || len(r.Notes) == 0 {
				t.Errorf("%d calls were recorded: %d lines and %d missing, notes %q", n+1, calls, r.Gaps, r.Notes)
			}
			if gap := ofKind(list, KindGap)[0]; !strings.Contains(gap.Detail, "audit log") {
				t.Errorf("gap: %+v", gap)
			}
		})
	}
}

func TestALogThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	for _, tooMany := range []bool{false, true} {
		t.Run(fmt.Sprintf("more entries than there is room for: %v", tooMany), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be made there
				t.Fatal(err)
			}
			o := Options{Dir: dir, queueLength: 10, retryPause: time.Millisecond}
			l := open(t, o)
			if s := l.Status(); s.Error == nil || !strings.Contains(s.Error.Error(), dir) {
				t.Errorf("status: %+v", s)
			}
			n := 5
			if tooMany {
				n = 15
			}
			for i := range n {
				l.Record(call(i))
			}
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is written", func() bool { s := l.Status(); return s.Error == nil && s.Dropped == 0 && s.Waiting == 0 })
			shut(t, l)
			r, list := mustVerify(t, dir), all(t, dir)
			if calls := len(ofKind(list, KindCall)); calls != min(n, 10) || int(r.Gaps) != n-calls {
				t.Errorf("%d calls were recorded: %d lines and %d missing", n, calls, r.Gaps)
			}
			if start := ofKind(list, KindStart)[0]; !strings.Contains(start.Detail, "after the daemon's start: ") {
				t.Errorf("first line: %+v", start)
			}
		})
	}
	t.Run("closed before it could be", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, Options{Dir: file})
		l.Record(call(1))
		if err := l.Close(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("got %v, want what was wrong with %s", err, file)
		}
	})
	t.Run("not where calls are to be refused", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(Options{Dir: file, Refuse: true}); err == nil {
			shut(t, l)
			t.Error("got no error")
		}
	})
}

func TestAFullDiskRefusesWhereThatIsWanted(t *testing.T) {
	dir, disk := t.TempDir(), &fullDisk{}
	disk.room.Store(2000)
	l := open(t, Options{Dir: dir, open: disk.open, Refuse: true, retryPause: time.Millisecond})
	n := 0
	for ; ; n++ {
		if err := l.Admit(); err != nil {
			if !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), "audit.on_error") {
				t.Errorf("got %v", err)
			}
			break
		}
		l.Record(call(n))
		time.Sleep(100 * time.Microsecond)
	}
	disk.room.Store(1 << 30) // for all that a slow disk has let wait
	eventually(t, "calls are admitted again", func() bool { return l.Admit() == nil })
	l.Record(call(n))
	shut(t, l)
	if r := mustVerify(t, dir); r.Gaps != 0 {
		t.Errorf("report: %+v", r)
	}
	if got := len(ofKind(all(t, dir), KindCall)); got != n+1 {
		t.Errorf("%d lines of %d admitted calls", got, n+1)
	}
}

func TestEveryAdmittedEntryHasRoom(t *testing.T) {
	dir, disk := t.TempDir(), &fullDisk{}
	disk.room.Store(1 << 30)
	l := open(t, Options{Dir: dir, open: disk.open, Refuse: true, queueLength: 10, retryPause: time.Millisecond})
	var admitted int
	for l.Admit() == nil {
		admitted++
	}
	if admitted != 10 {
		t.Errorf("%d calls were admitted at once, and there is room for 10", admitted)
	}
	disk.broken.Store(true)
	for n := range admitted {
		l.Record(call(n))
	}
	if s := l.Status(); s.Dropped != 0 {
		t.Errorf("status: %+v", s)
	}
	disk.broken.Store(false)
	shut(t, l)
	if got := len(ofKind(all(t, dir), KindCall)); got != admitted {
		t.Errorf("%d lines of %d calls", got, admitted)
	}
}

func TestALogThatCannotBeWrittenAtTheEndSaysSo(t *testing.T) {
	disk := &fullDisk{}
	disk.room.Store(1 << 20)
	l, err := Open(Options{Dir: t.TempDir(), open: disk.open, retryPause: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	disk.broken.Store(true)
	for n := range 10 {
		l.Record(call(n))
	}
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: got %v, want %v", err, syscall.EIO)
	}
	l.Record(call(1)) // does nothing
	if err := l.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestFollowShowsLinesAsTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, MaxSize: 1000, MaxFiles: 100})
	l.Record(call(-1))
	waitEmpty(t, l)
	place, err := Read(dir, func(Line, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan Line)
	ended := make(chan error, 1)
	go func() {
		ended <- Follow(ctx, dir, place, func(line Line, raw []byte) error {
			if !bytes.Contains(raw, []byte(line.Hash)) {
				t.Errorf("%q is not the line of %+v", raw, line)
			}
			if line.Kind == KindCall && line.Out >= 0 {
				got <- line
			}
			return nil
		})
	}()
	for n := range 20 { // over several files
		l.Record(call(n))
		select {
		case line := <-got:
			if line.Out != int64(n) {
				t.Fatalf("got call %d, want %d", line.Out, n)
			}
		case <-time.After(hang):
			t.Fatalf("call %d was not shown", n)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow: got %v", err)
	}
}

// BenchmarkRecord is what a line costs: to the writer, which bounds how many
// there can be, and of that to the caller.
func BenchmarkRecord(b *testing.B) {
	l, err := Open(Options{Dir: b.TempDir(), Sync: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	e := call(1)
	var callers time.Duration
	for b.Loop() {
		for len(l.queue) > queueLength-1 {
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		l.Record(e)
		callers += time.Since(began)
	}
	b.ReportMetric(float64(callers)/float64(b.N), "caller-ns/op")
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	if n := l.dropped.Load(); n > 0 {
		b.Fatalf("%d entries were dropped", n)
	}
}
