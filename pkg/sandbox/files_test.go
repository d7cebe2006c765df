package sandbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

// announce publishes a file of a fake harness, in no run.
func (h *fakeHarness) announce(number int, name string) {
	h.line(`{"t":"file","file":%d,"name":%s,"mime":"text/plain","size":3}`, number, quoted(name))
}

func quoted(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// reading returns a harness that announces a file and answers every read.
func reading(answer func(h *fakeHarness, read readFrame)) func(h *fakeHarness) int {
	return func(h *fakeHarness) int {
		h.announce(1, "f.txt")
		for {
			line, err := h.in.ReadBytes('\n')
			if err != nil {
				return 0
			}
			var f readFrame
			if err := json.Unmarshal(line, &f); err != nil {
				panic(err)
			}
			if f.T == "read" {
				answer(h, f)
			}
		}
	}
}

// chunkOf answers a read with data of a file.
func (h *fakeHarness) chunkOf(read readFrame, data string, size int, stamp string) {
	h.line(`{"t":"chunk","id":%d,"data":"%s","size":%d,"stamp":%q}`, read.ID, base64.StdEncoding.EncodeToString([]byte(data)), size, stamp)
}

// fileOf waits for the sandbox's only file.
func fileOf(t *testing.T, s *Sandbox) File {
	t.Helper()
	for range 1000 {
		if list := s.Files(); len(list) == 1 {
			return list[0]
		}
		synctest.Wait()
	}
	t.Fatalf("got files %+v, want one", s.Files())
	return File{}
}

func TestReadingAFile(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 100_000) // over three chunks
	part := func(read readFrame) string {
		return big[min(read.Offset, int64(len(big))):min(read.Offset+read.Length, int64(len(big)))]
	}
	parts := 0
	for _, row := range []struct {
		name   string
		most   int64
		answer func(h *fakeHarness, read readFrame)
		want   string // the content, if err is ""
		err    string
		is     error
	}{
		{name: "one chunk", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", 3, "s") }, want: "abc"},
		{name: "nothing", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "", 0, "s") }},
		{name: "several chunks", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, part(r), len(big), "s") }, want: big},
		{name: "as many bytes as are wanted", most: 3, answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", 3, "s") }, want: "abc"},
		{name: "more bytes than are wanted", most: 2, answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", 3, "s") },
			err: "has 3 bytes, and at most 2", is: ErrFileSize},
		{name: "a size without end", answer: func(h *fakeHarness, r readFrame) {
			h.line(`{"t":"chunk","id":%d,"data":"YQ==","size":9223372036854775807,"stamp":""}`, r.ID)
		}, err: "9223372036854775807", is: ErrFileSize},
		{name: "a negative size", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", -3, "s") }, err: "without sense"},
		{name: "a chunk that is too long", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abcd", 3, "s") }, err: "changed"},
		{name: "a chunk that is too short", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "ab", 3, "s") }, err: "changed"},
		{name: "chunks of one byte", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "a", 1000, "s") }, err: "changed"},
		{name: "no data at all", answer: func(h *fakeHarness, r readFrame) { h.line(`{"t":"chunk","id":%d,"size":3}`, r.ID) }, err: "changed"},
		{name: "a file that grows", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, part(r), len(big)+int(r.Offset), "s") }, err: "changed"},
		{name: "a file that shrinks", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, part(r), len(big)-int(r.Offset), "s") }, err: "changed"},
		{name: "a file that is another", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, part(r), len(big), fmt.Sprint(r.Offset)) }, err: "changed"},
		{name: "a stamp that is too long", answer: func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", 3, strings.Repeat("s", 1000)) }, err: "without sense"},
		{name: "a file that was removed", answer: func(h *fakeHarness, r readFrame) {
			h.line(`{"t":"chunk","id":%d,"error":{"type":"FileNotFoundError","message":"x"}}`, r.ID)
		}, err: "was removed", is: ErrNoFile},
		{name: "an error", answer: func(h *fakeHarness, r readFrame) {
			h.line(`{"t":"chunk","id":%d,"error":{"type":"E","message":"go away\u001b[2J"}}`, r.ID)
		}, err: "f.txt: go away[2J"},
		{name: "an answer to nobody first", answer: func(h *fakeHarness, r readFrame) {
			h.chunkOf(readFrame{ID: r.ID + 1}, "xxx", 3, "s")
			h.chunkOf(readFrame{ID: 0}, "xxx", 3, "s")
			h.chunkOf(readFrame{ID: -1}, "xxx", 3, "s")
			h.chunkOf(r, "abc", 3, "s")
			h.chunkOf(r, "yyy", 3, "s")
		}, want: "abc"},
		{name: "data that is no base64", answer: func(h *fakeHarness, r readFrame) {
			h.line(`{"t":"chunk","id":%d,"data":"*","size":3,"stamp":"s"}`, r.ID)
		}, err: "does not answer within"},
		{name: "silence", answer: func(*fakeHarness, readFrame) {}, err: "does not answer within"},
		{name: "silence after a chunk", answer: func(h *fakeHarness, r readFrame) {
			if parts++; parts == 1 {
				h.chunkOf(r, part(r), len(big), "s")
			}
		}, err: "does not answer within"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := launchFake(t, reading(row.answer))
				file := fileOf(t, s)
				if row.most == 0 {
					row.most = 16 << 20
				}
				var got bytes.Buffer
				now, err := s.CopyFile(t.Context(), &got, file.URI, row.most)
				if row.err == "" {
					if err != nil || got.String() != row.want || now.Size != int64(len(row.want)) {
						t.Errorf("got %d bytes, %+v, %v, want %d", got.Len(), now, err, len(row.want))
					}
					return
				}
				if err == nil {
					t.Fatalf("got %d bytes, want an error with %q", got.Len(), row.err)
				}
				expectContains(t, "error", err.Error(), row.err)
				if row.is != nil && !errors.Is(err, row.is) {
					t.Errorf("got %v, want one that is %v", err, row.is)
				}
				if s.Cause() != "" {
					t.Errorf("the sandbox ended: %s", s.Cause())
				}
			})
		})
	}
}

func TestReadingEndsWithItsSandboxAndItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := launchFake(t, reading(func(*fakeHarness, readFrame) {}))
		uri := fileOf(t, s).URI
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("nobody wants it")
		cancel(why)
		if _, err := s.CopyFile(ctx, &bytes.Buffer{}, uri, 10); !errors.Is(err, why) {
			t.Errorf("a canceled read: got %v, want %v", err, why)
		}
		result := make(chan error)
		go func() {
			_, err := s.CopyFile(t.Context(), &bytes.Buffer{}, uri, 10)
			result <- err
		}()
		synctest.Wait()
		if err := e.Kill(t.Context(), s.container, "SIGKILL"); err != nil {
			t.Fatal(err)
		}
		if err := <-result; !errors.Is(err, ErrNoFile) {
			t.Errorf("a read in a dead sandbox: got %v, want %v", err, ErrNoFile)
		}
		if list := s.Files(); list != nil {
			t.Errorf("a dead sandbox has files %+v", list)
		}
	})
}

func TestManyReadsAtOnce(t *testing.T) {
	s, _ := launchFake(t, reading(func(h *fakeHarness, r readFrame) { h.chunkOf(r, "abc", 3, "s") }))
	for len(s.Files()) == 0 {
		time.Sleep(time.Millisecond)
	}
	uri := s.Files()[0].URI
	var done sync.WaitGroup
	for range 50 {
		done.Go(func() {
			var got bytes.Buffer
			if _, err := s.CopyFile(t.Context(), &got, uri, 10); err != nil || got.String() != "abc" {
				t.Errorf("got %q, %v", &got, err)
			}
		})
	}
	done.Wait()
	if n := len(s.files.waiting); n != 0 {
		t.Errorf("%d reads are waited for after all", n)
	}
}

func TestAnnouncedFiles(t *testing.T) {
	names := func(list []File) string {
		var out []string
		for _, f := range list {
			out = append(out, f.Name)
		}
		return strings.Join(out, " ")
	}
	for _, row := range []struct {
		name string
		play func(h *fakeHarness)
		want string
	}{
		{"in order", func(h *fakeHarness) { h.announce(1, "b"); h.announce(2, "a") }, "b a"},
		{"a name twice is one file", func(h *fakeHarness) { h.announce(1, "a"); h.announce(2, "b"); h.announce(3, "a") }, "a b"},
		{"names that are none are passed over", func(h *fakeHarness) {
			for i, name := range []string{
				"", ".", "..", ".hidden", "a/b", "/etc/passwd", "..\\x", "a\x00b", "a\nb", "\u202eexe", "\u2028", strings.Repeat("n", 129),
			} {
				h.announce(i+1, name)
			}
			h.announce(50, "ok")
		}, "ok"},
		{"a flood", func(h *fakeHarness) {
			for i := range 1000 {
				h.announce(i, fmt.Sprintf("f%03d", i))
			}
		}, "f000 f001"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := launchFake(t, func(h *fakeHarness) int {
					row.play(h)
					return interpreter(h)
				})
				res := s.Run(t.Context(), request("1"), nil)
				if got := names(s.Files()); !strings.HasPrefix(got, row.want) || len(s.Files()) > MaxFiles {
					t.Errorf("got %d files %q, want %q", len(s.Files()), got, row.want)
				}
				if len(res.Files) != len(s.Files()) {
					t.Errorf("the next result has %d files, want %d: they were published before it", len(res.Files), len(s.Files()))
				}
				if res := s.Run(t.Context(), request("2"), nil); len(res.Files) != 0 {
					t.Errorf("a result has files of an earlier one: %+v", res.Files)
				}
			})
		})
	}
}

func TestAFileIsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := launchFake(t, func(h *fakeHarness) int {
			f, _ := h.until("run")
			h.line(`{"t":"file","run":%d,"file":1,"name":"a b (1) é.csv","mime":"text/csv","size":7}`, f.Run)
			h.line(`{"t":"file","run":%d,"file":2,"name":"x","mime":"text/html; charset=\"","size":-7}`, f.Run)
			h.line(`{"t":"file","run":77,"file":1,"name":"a b (1) é.csv","mime":"text/csv","size":8}`)
			h.done(f.Run)
			return interpreter(h)
		})
		res := s.Run(t.Context(), request("1"), nil)
		base := s.files.base
		want := []File{
			{URI: base + "x", Name: "x"},
			{URI: base + "a%20b%20%281%29%20%C3%A9.csv", Name: "a b (1) é.csv", MIME: "text/csv", Size: 8},
		}
		if diff := cmp.Diff(want, res.Files); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	})
}

func TestAddressesAreASandboxsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, _ := launchFake(t, reading(func(h *fakeHarness, r readFrame) { h.chunkOf(r, "one", 3, "s") }))
		two, _ := launchFake(t, reading(func(h *fakeHarness, r readFrame) { h.chunkOf(r, "two", 3, "s") }))
		uri := fileOf(t, one).URI
		if other := fileOf(t, two).URI; other == uri {
			t.Errorf("two sandboxes have %s", uri)
		}
		for _, wrong := range []string{uri + "x", strings.TrimSuffix(uri, "t"), filesBase("") + "f.txt", ""} {
			if _, err := one.CopyFile(t.Context(), &bytes.Buffer{}, wrong, 10); !errors.Is(err, ErrNoFile) {
				t.Errorf("reading %q: got %v, want %v", wrong, err, ErrNoFile)
			}
		}
		if _, err := two.CopyFile(t.Context(), &bytes.Buffer{}, uri, 10); !errors.Is(err, ErrNoFile) {
			t.Errorf("reading another's file: got %v, want %v", err, ErrNoFile)
		}
	})
}

// BenchmarkReadingAFile reads 10 MB out of the real harness.
func BenchmarkReadingAFile(b *testing.B) {
	e := enginetest.NewMemory(b, enginetest.Options{})
	o := localOptions(b)
	o.Spec.Image = enginetest.MemoryImage
	s, err := Launch(b.Context(), e, o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const size = 10_000_000
	s.Run(b.Context(), Request{Code: "import os; publish(os.urandom(10_000_000), 'ten.bin')", Timeout: time.Minute}, nil)
	uri := s.Files()[0].URI
	b.SetBytes(size)
	for b.Loop() {
		if f, err := s.CopyFile(b.Context(), io.Discard, uri, size); err != nil || f.Size != size {
			b.Fatalf("got %+v, %v", f, err)
		}
	}
}

// A session tells of changes, and its files go with its sandbox.
func TestASessionsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fakeEngine(t, func(h *fakeHarness) int {
			h.start()
			for {
				f, ok := h.until("run")
				switch {
				case !ok:
					return 0
				case f.Code == "die":
					return 7
				case f.Code == "publish and die":
					h.line(`{"t":"file","run":%d,"file":1,"name":"f","size":1}`, f.Run)
					return 7
				}
				h.line(`{"t":"file","run":%d,"file":1,"name":"f","size":1}`, f.Run)
				h.done(f.Run)
			}
		})
		pool := NewPool(func(ctx context.Context) (*Sandbox, error) { return Launch(ctx, e, fakeOptions()) }, PoolOptions{})
		defer pool.Close()
		s := NewSession(pool, SessionOptions{})
		defer s.Close()
		var changes []int
		var mu sync.Mutex
		s.Watch(func() {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, len(s.Files()))
		})
		run := func(code string) string {
			t.Helper()
			if _, err := s.Run(t.Context(), Request{Code: code}, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // a sandbox's end may be told after its run has ended
			if list := s.Files(); len(list) == 1 {
				return list[0].URI
			}
			return ""
		}
		if _, err := s.CopyFile(t.Context(), &bytes.Buffer{}, "x", 1); !errors.Is(err, ErrNoFile) {
			t.Errorf("before the first run: got %v", err)
		}
		first := run("publish")
		if again := run("publish"); first == "" || again != first {
			t.Errorf("published again at %s, first at %s", again, first)
		}
		if after := run("die"); after != "" {
			t.Errorf("after the end there is %s", after)
		}
		if second := run("publish"); second == "" || second == first {
			t.Errorf("in a new sandbox at %s, first at %s", second, first)
		}
		res, err := s.Run(t.Context(), Request{Code: "publish and die"}, nil)
		if err != nil || res.Status != StatusLost || len(res.Files) != 0 {
			t.Errorf("a run that took its file along: got %+v, %v", res, err)
		}
		expectContains(t, "notices", strings.Join(res.Notices, "\n"), "gone with the sandbox (1): f.")
		synctest.Wait()
		run("publish")
		if err := s.Reset(t.Context()); err != nil || s.Files() != nil {
			t.Errorf("after a reset: %v, files %+v", err, s.Files())
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]int{1, 1, 0, 1, 1, 0, 1, 0}, changes); diff != "" {
			t.Errorf("files at each change (-want +got):\n%s", diff)
		}
	})
}
