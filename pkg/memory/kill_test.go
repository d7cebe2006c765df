package memory

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// writerEnv makes the test's program a writer: its value is the folder.
const writerEnv = "BRIDGED_TEST_MEMORY_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeForever(dir)
	}
	os.Exit(m.Run())
}

// writeForever saves until it is killed, and prints what was acknowledged: keys
// of its own with rising numbers, and a count that it shares with others.
func writeForever(dir string) {
	sp := Open(Options{Dir: dir, History: 2}).Global()
	fill := strings.Repeat("x", 20000)
	for n := 1; ; n++ {
		key := fmt.Sprintf("%s %d", os.Getenv(writerEnv+"_NAME"), n%3)
		value, err := json.Marshal(map[string]any{"n": n, "fill": fill})
		if err == nil {
			_, err = sp.Save(background, key, Change{Value: value})
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(key, n)
		if err := count(sp); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println("count", n)
	}
}

// count adds one to the count, however many others do, and however long they
// take: one that was told to try again later does.
func count(sp *Space) error {
	for {
		n, stamp := 0, "0"
		m, err := sp.Load("count")
		if err == nil {
			stamp = m.Stamp
			if err := json.Unmarshal(m.Value, &n); err != nil {
				return err
			}
		}
		_, err = sp.Save(background, "count", Change{Value: json.RawMessage(strconv.Itoa(n + 1)), If: stamp})
		if e, ok := err.(*Error); ok && (e.Code == CodeConflict || e.Code == CodeBusy) {
			continue
		}
		return err
	}
}

// Processes that write to one folder are killed again and again, at any moment.
// The number of rounds is BRIDGED_TEST_KILLS.
func TestWhatIsAcknowledgedOutlastsSIGKILL(t *testing.T) {
	rounds := 20
	if n, err := strconv.Atoi(os.Getenv("BRIDGED_TEST_KILLS")); err == nil {
		rounds = n
	}
	dir := filepath.Join(t.TempDir(), "memory")
	sp := Open(Options{Dir: dir}).Global()
	counted, killed := 0, 0
	for range rounds {
		const writers = 3
		acked := make([]map[string]int, writers)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { acked[i] = runWriter(t, dir, fmt.Sprint("w", i), rand.N(time.Duration(30))*time.Millisecond) })
		}
		wg.Wait()
		for _, last := range acked {
			for key, n := range last {
				if key == "count" {
					counted += n
					continue
				}
				if got := numberIn(t, sp, key); got < n {
					t.Fatalf("%s is %d, and %d was acknowledged", key, got, n)
				}
			}
		}
		killed += writers
		m, err := sp.Load("count")
		if errors.Is(err, fs.ErrNotExist) && counted == 0 {
			err = nil // all were killed before they had counted anything
		}
		if got, _ := strconv.Atoi(string(m.Value)); err != nil || got < counted || got > counted+killed {
			t.Fatalf("the count is %s, %v; %d were acknowledged by writers that were killed %d times", m.Value, err, counted, killed)
		}
		expectWhole(t, sp)
	}
}

func numberIn(t *testing.T, sp *Space, key string) int {
	t.Helper()
	m, err := sp.Load(key)
	if err != nil {
		t.Fatalf("loading %s: %v", key, err)
	}
	var value struct{ N int }
	if err := json.Unmarshal(m.Value, &value); err != nil {
		t.Fatalf("%s is %.50s: %v", key, m.Value, err)
	}
	return value.N
}

// expectWhole fails the test if any file is torn, an earlier version too.
func expectWhole(t *testing.T, sp *Space) {
	t.Helper()
	for _, pattern := range []string{"*.json", ".history/*/*.json"} {
		paths, err := filepath.Glob(sp.path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := parse(filepath.Base(path), text, time.Time{}); err != nil {
				t.Fatalf("%s is torn: %v", path, err)
			}
		}
	}
}

// runWriter runs a writer, kills it a while after its first acknowledgement, and
// returns the last number of each key that it has acknowledged.
func runWriter(t *testing.T, dir, name string, after time.Duration) map[string]int {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+dir, writerEnv+"_NAME="+name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return nil
	}
	hang := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer hang.Stop()
	last := map[string]int{}
	first := true
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a line that is torn was not acknowledged
		}
		i := strings.LastIndexByte(line, ' ')
		n, numberErr := strconv.Atoi(strings.TrimSpace(line[i+1:]))
		if err != nil || numberErr != nil {
			t.Errorf("the writer said %q, %v", line, err)
			break
		}
		last[line[:i]] = n
		if first {
			first = false
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // it was killed
	if first {
		t.Error("the writer acknowledged nothing within a minute")
	}
	return last
}

// Thirty-two sessions count on one key, and readers look at it meanwhile.
func TestThirtyTwoSessionsUpdateOneKey(t *testing.T) {
	const sessions, each = 32, 8
	dir := filepath.Join(t.TempDir(), "memory")
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		sp := Open(Options{Dir: dir}).Global()
		for last := 0; ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			m, err := sp.Load("count")
			n, _ := strconv.Atoi(string(m.Value))
			if err == nil && n < last || err != nil && last > 0 {
				t.Errorf("a reader saw %s, %v after %d", m.Value, err, last)
				return
			}
			last = n
		}
	})
	stores := []*Store{Open(Options{Dir: dir}), Open(Options{Dir: dir})} // as two processes have them
	for i := range sessions {
		writers.Go(func() {
			sp := stores[i%2].Global()
			for range each {
				if err := count(sp); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	m, err := stores[0].Global().Load("count")
	if err != nil || string(m.Value) != strconv.Itoa(sessions*each) || m.Version != sessions*each {
		t.Errorf("the count is %s of version %d, %v; want %d", m.Value, m.Version, err, sessions*each)
	}
}
