//go:build integration

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"text/tabwriter"
	"time"
)

// samples is how many rows a soak prints.
const samples = 30

// A sample is what the daemon uses at a moment.
type sample struct {
	at                       time.Duration
	memory                   float64 // MiB
	files, goroutines, calls float64
}

// soak has agents call for minutes while nothing goes wrong, and prints what the
// daemon uses meanwhile. It does not judge that: the trend is for people.
func soak(t *testing.T) {
	w := open(t)
	w.env = append(w.env, "MCP_BRIDGE_OPS_PPROF=true")
	if err := w.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := w.play(t, *seedFlag)
	span := time.Duration(*minutesFlag * float64(time.Minute))
	var list []sample
	for began := time.Now(); len(list) < 2 || time.Since(began) < span; {
		sleep(t.Context(), span/samples)
		s, err := w.sample(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.at = time.Since(began)
		list = append(list, s)
		fmt.Fprintf(os.Stderr, "%s: %.1f MiB, %.0f descriptors, %.0f goroutines, %.0f calls\n", s.at.Round(time.Second), s.memory, s.files, s.goroutines, s.calls)
		w.fail(t)
	}
	stop()
	printTrend(list)
}

func (w *world) sample(ctx context.Context) (sample, error) {
	var s sample
	bytes, err := w.memory()
	if err != nil {
		return s, err
	}
	files, err := w.files()
	if err != nil {
		return s, err
	}
	n, err := w.goroutines(ctx)
	if err != nil {
		return s, err
	}
	s.memory, s.files, s.goroutines = float64(bytes)/(1<<20), float64(files), float64(n)
	for _, a := range w.agents {
		s.calls += float64(a.answers.Load())
	}
	return s, nil
}

// goroutines asks the daemon how many it has.
func (w *world) goroutines(ctx context.Context) (int, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", w.socket("ops.sock"))
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://ops/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("reading the goroutines: %w", err)
	}
	var n int
	if _, err := fmt.Sscanf(line, "goroutine profile: total %d", &n); err != nil {
		return 0, fmt.Errorf("the goroutines are %q: %w", line, err)
	}
	return n, nil
}

// printTrend prints the samples, and by how much each column rises in an hour,
// by least squares over the second half: the first is warming up.
func printTrend(list []sample) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "after\tMiB\tdescriptors\tgoroutines\tcalls\t")
	for _, s := range list {
		fmt.Fprintf(tw, "%s\t%.1f\t%.0f\t%.0f\t%.0f\t\n", s.at.Round(time.Second), s.memory, s.files, s.goroutines, s.calls)
	}
	half := list[len(list)/2:]
	fmt.Fprintf(tw, "an hour more\t%+.1f\t%+.1f\t%+.1f\t%+.0f\t\n",
		slope(half, func(s sample) float64 { return s.memory }), slope(half, func(s sample) float64 { return s.files }),
		slope(half, func(s sample) float64 { return s.goroutines }), slope(half, func(s sample) float64 { return s.calls }))
	_ = tw.Flush() // to the terminal
}

// slope is by how much a figure rises in an hour.
func slope(list []sample, figure func(sample) float64) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, s := range list {
		x, y := s.at.Hours(), figure(s)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}
