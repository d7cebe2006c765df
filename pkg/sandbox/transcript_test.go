package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime/enginetest"
)

var update = flag.Bool("update", false, "rewrite the harness's lines in testdata/*.transcript")

// A step is one line of a transcript: a frame, and which way it goes.
type step struct {
	toHarness bool
	frame     string
}

// readTranscript returns the frames of a transcript. A line that starts with
// "> " goes to the harness, one with "< " to the daemon, the rest is prose.
func readTranscript(text string) []step {
	var steps []step
	for line := range strings.Lines(text) {
		frame := strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(frame, "> "); ok {
			steps = append(steps, step{true, rest})
		} else if rest, ok := strings.CutPrefix(frame, "< "); ok {
			steps = append(steps, step{false, rest})
		}
	}
	return steps
}

func eachTranscript(t *testing.T, test func(t *testing.T, name string, steps []step)) {
	files, err := filepath.Glob("testdata/*.transcript")
	if err != nil || len(files) == 0 {
		t.Fatalf("finding transcripts: %v, %d files", err, len(files))
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".transcript"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			test(t, name, readTranscript(string(text)))
		})
	}
}

// steady says how what differs between machines and runs is written.
var steady = []struct {
	found *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`"python":"[^"]*"`), `"python":"3.x"`},
	{regexp.MustCompile(`"posture":\{.*\}\}$`), `"posture":{}}`},
	{regexp.MustCompile(`("imports":\{"json":)[0-9.e-]+`), `${1}0`},
	{regexp.MustCompile(`"stamp":"[^"]*"`), `"stamp":"0.0"`},
	{regexp.MustCompile(`/[^" :]*/bridged/`), `/tmp/bridged/`},
	{regexp.MustCompile(`\\n +[~^]+\\n`), `\n`}, // marks below a line of source, from Python 3.11 on
}

func normalize(frame string) string {
	for _, s := range steady {
		frame = s.found.ReplaceAllString(frame, s.with)
	}
	return frame
}

// TestTranscriptsHarness feeds the daemon's lines to the real harness, which
// must answer with the harness's.
func TestTranscriptsHarness(t *testing.T) {
	eachTranscript(t, func(t *testing.T, name string, steps []step) {
		h := startHarness(t)
		got := make([]step, len(steps))
		for i, s := range steps {
			got[i] = s
			if s.toHarness {
				h.write(t, s.frame+"\n")
				continue
			}
			got[i].frame = normalize(h.nextLike(t, s.frame))
		}
		if *update {
			rewrite(t, name, got)
			return
		}
		if diff := cmp.Diff(frames(steps), frames(got)); diff != "" {
			t.Errorf("frames (-want +got):\n%s", diff)
		}
	})
}

func frames(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		way := "< "
		if s.toHarness {
			way = "> "
		}
		b.WriteString(way + s.frame + "\n")
	}
	return b.String()
}

// rewrite puts the frames of steps in the place of a transcript's.
func rewrite(t *testing.T, name string, steps []step) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "< ") || strings.HasPrefix(line, "> ") {
			line = line[:2] + steps[0].frame + "\n"
			steps = steps[1:]
		}
		out.WriteString(line)
	}
	if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A harnessProcess is the real harness, driven by hand.
type harnessProcess struct {
	stream interface {
		io.Reader
		io.Writer
	}
	reader *frameReader
}

func startHarness(t *testing.T) *harnessProcess {
	t.Helper()
	e := enginetest.NewMemory(t, enginetest.Options{})
	o := localOptions(t)
	o.Spec.Image = enginetest.MemoryImage
	id, err := e.Create(t.Context(), launchSpec(o, "test"))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := e.Attach(t.Context(), id, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	h := &harnessProcess{stream, newFrameReader(stream)}
	h.write(t, fmt.Sprintf("bridged-boot NONCE %d\n%s", len(images.Payload()), images.Payload()))
	return h
}

func (h *harnessProcess) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(h.stream, text); err != nil {
		t.Fatal(err)
	}
}

// next returns the harness's next frame. The empty line that ends a dead
// harness's last frame is passed over.
func (h *harnessProcess) next(t *testing.T) string {
	t.Helper()
	for {
		line, err := h.reader.next()
		if err != nil {
			t.Fatalf("reading from the harness: %v", err)
		}
		if len(line) > 0 {
			return string(line)
		}
	}
}

// nextLike is next, but joins frames of output: a busy machine may split what
// want holds.
func (h *harnessProcess) nextLike(t *testing.T, want string) string {
	t.Helper()
	line := h.next(t)
	whole := readOutput(want)
	for got := readOutput(line); got.T == "output" && got.size() < whole.size(); got = readOutput(line) {
		next := h.next(t)
		more := readOutput(next)
		if more.T == "" {
			t.Fatalf("got %s and then %s, want %s", line, next, want)
		}
		got.add(more)
		joined, err := encode(got)
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSuffix(string(joined), "\n")
	}
	return line
}

// An outputFrom is a frame of output as the harness writes it.
type outputFrom struct {
	T          string   `json:"t"`
	Run        int64    `json:"run"`
	Cut        *int64   `json:"cut,omitempty"`
	Parts      [][2]any `json:"parts"`
	Background bool     `json:"background,omitempty"`
}

// readOutput returns a frame of output, and nothing for any other frame.
func readOutput(frame string) outputFrom {
	var f outputFrom
	if err := json.Unmarshal([]byte(frame), &f); err != nil || f.T != "output" {
		return outputFrom{}
	}
	return f
}

func (f *outputFrom) size() int {
	n := 0
	for _, p := range f.Parts {
		n += len(fmt.Sprint(p[1]))
	}
	return n
}

func (f *outputFrom) add(g outputFrom) {
	for _, p := range g.Parts {
		if last := len(f.Parts) - 1; last >= 0 && f.Parts[last][0] == p[0] {
			f.Parts[last][1] = fmt.Sprint(f.Parts[last][1], p[1])
			continue
		}
		f.Parts = append(f.Parts, p)
	}
}

// A player plays a transcript's harness and notes where the daemon's frames
// differ from it.
type player struct {
	steps   []step
	cancels chan context.CancelFunc // of the run under way
	wrong   chan string
}

// play returns what the transcript's end frame says.
func (p *player) play(h *fakeHarness) int {
	h.boot()
	for _, s := range p.steps {
		if !s.toHarness {
			h.line("%s", strings.Replace(s.frame, `"NONCE"`, `"`+h.nonce+`"`, 1))
			continue
		}
		if strings.Contains(s.frame, `"t":"interrupt"`) {
			(<-p.cancels)()
		}
		got, err := h.in.ReadString('\n')
		if err != nil {
			return 0
		}
		if got = strings.TrimSuffix(got, "\n"); got != s.frame {
			p.wrong <- cmp.Diff(s.frame, got)
		}
	}
	last, err := parseFrame([]byte(p.steps[len(p.steps)-1].frame))
	if err == nil && last.T == "end" {
		return *last.Code
	}
	h.until("the end of stdin")
	return 0
}

// TestTranscriptsDaemon plays the harness's lines to a Sandbox, which must
// send the daemon's.
func TestTranscriptsDaemon(t *testing.T) {
	eachTranscript(t, func(t *testing.T, _ string, steps []step) {
		synctest.Test(t, func(t *testing.T) { playTo(t, steps) }) // a player that is slow is not interrupted again
	})
}

func playTo(t *testing.T, steps []step) {
	t.Helper()
	p := &player{steps: daemonsSteps(steps), cancels: make(chan context.CancelFunc, 1), wrong: make(chan string, len(steps))}
	e := fakeEngine(t, p.play)
	s, err := Launch(t.Context(), e, transcriptOptions(t, steps))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.calls.bind(repliesOf(steps))
	for _, st := range steps {
		var f runFrame
		if !st.toHarness || json.Unmarshal([]byte(st.frame), &f) != nil {
			continue
		}
		switch f.T {
		case "run":
			checkAgainst(t, steps, f.Run, p.run(t, s, f))
		case "read":
			checkRead(t, steps, s, st.frame)
		}
	}
	close(p.wrong)
	for diff := range p.wrong {
		t.Errorf("daemon's frame (-want +got):\n%s", diff)
	}
}

// checkRead copies the file that a read frame names, and holds what comes of it
// to the chunk that answers. No file of a transcript has more than one.
func checkRead(t *testing.T, steps []step, s *Sandbox, frame string) {
	t.Helper()
	var read readFrame
	if err := json.Unmarshal([]byte(frame), &read); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(s.files.list, func(n numbered) bool { return n.number == read.File })
	if i < 0 {
		t.Fatalf("file %d is not there: %+v", read.File, s.files.list)
	}
	var got bytes.Buffer
	_, err := s.CopyFile(t.Context(), &got, s.files.list[i].URI, 1<<20)
	for _, st := range steps {
		var c inFrame
		if st.toHarness || json.Unmarshal([]byte(st.frame), &c) != nil || c.T != "chunk" || c.ID != read.ID {
			continue
		}
		if (err != nil) != (c.Error != nil) || !bytes.Equal(got.Bytes(), c.Data) {
			t.Errorf("read %d: got %q, %v, want %q, %+v", read.ID, &got, err, c.Data, c.Error)
		}
	}
}

// run runs what f says, and lets the player cancel it.
func (p *player) run(t *testing.T, s *Sandbox, f runFrame) Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.cancels <- cancel
	defer func() {
		select {
		case <-p.cancels: // the transcript did not interrupt it
		default:
		}
	}()
	return s.Run(ctx, Request{Code: f.Code, Servers: f.Servers, Data: f.Data, Timeout: hang}, nil)
}

// daemonsSteps leaves out interrupts that come after the end of their run: a
// daemon that has seen the end sends none.
func daemonsSteps(steps []step) []step {
	var out []step
	over := map[int64]bool{}
	for _, s := range steps {
		var f inFrame
		if json.Unmarshal([]byte(s.frame), &f) == nil && f.T == "done" {
			over[f.Run] = true
		}
		if f.T != "interrupt" || !over[f.Run] {
			out = append(out, s)
		}
	}
	return out
}

// transcriptOptions make a daemon send the transcript's config.
func transcriptOptions(t *testing.T, steps []step) Options {
	t.Helper()
	o := fakeOptions()
	o.handle = "HANDLE"
	for _, s := range steps {
		if !s.toHarness {
			continue
		}
		var c configFrame
		if err := json.Unmarshal([]byte(s.frame), &c); err != nil {
			t.Fatal(err)
		}
		if c.T == "config" {
			o.Imports, o.Output = c.Imports, c.Output
		}
	}
	return o
}

// repliesOf answers calls in order, as the transcript does. A call that it
// does not answer waits until it is canceled.
func repliesOf(steps []step) RPC {
	replies := make(chan replyFrame, len(steps))
	for _, s := range steps {
		var f replyFrame
		if json.Unmarshal([]byte(s.frame), &f) == nil && f.T == "reply" {
			replies <- f
		}
	}
	return rpcFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case f := <-replies:
			if f.Error != nil {
				return nil, &codedError{f.Error}
			}
			return f.Result, nil
		default:
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
}

// A codedError is an error as pkg/proxy makes them.
type codedError struct{ e *replyError }

func (e *codedError) Error() string            { return e.e.Message }
func (e *codedError) RPCCode() string          { return e.e.Code }
func (e *codedError) RPCData() json.RawMessage { return e.e.Data }

// checkAgainst compares a result with the frames it was made of.
func checkAgainst(t *testing.T, steps []step, run int64, res Result) {
	t.Helper()
	var text bytes.Buffer
	for _, s := range steps {
		f, err := parseFrame([]byte(s.frame))
		if err != nil || s.toHarness {
			continue
		}
		for _, p := range f.Parts {
			if f.Run == run || (f.Run == 0 && run == 2) {
				text.WriteString(shown(p.text))
			}
		}
		if f.T == "end" && (res.Status != StatusLost || res.StateLost != fmt.Sprintf("Python ended with exit code %d", *f.Code)) {
			t.Errorf("run %d: got status %s, %q, want it lost with exit code %d", run, res.Status, res.StateLost, *f.Code)
		}
		if f.T == "file" && f.Run == run && !slices.ContainsFunc(res.Files, func(r File) bool { return r.Name == f.Name && r.MIME == f.MIME && r.Size == f.Size }) {
			t.Errorf("run %d: got files %+v, want what %s says", run, res.Files, s.frame)
		}
		if f.T == "done" && f.Run == run && (string(res.Status) != f.Status || res.Value != f.Value || string(res.Data) != f.JSON || !cmp.Equal(res.Error, f.Error)) {
			t.Errorf("run %d: got %+v, want what %s says", run, res, s.frame)
		}
	}
	var got strings.Builder
	for _, o := range res.Output {
		got.WriteString(o.Text)
	}
	if got.String() != text.String() {
		t.Errorf("run %d: got output %q, want %q", run, got.String(), text.String())
	}
}
