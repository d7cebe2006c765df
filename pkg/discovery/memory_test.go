package discovery

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHalfWrittenFileKeepsItsServers(t *testing.T) {
	const whole = `{"mcpServers": {"a": {"command": "a"}}}`
	for name, half := range map[string]string{"cut": whole[:20], "emptied": "", "a blank line": "\n"} {
		t.Run(name, func(t *testing.T) {
			root := tree{"home/.claude.json": whole}.write(t)
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(root+"/home/.claude.json", []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				o := Options{Home: root + "/home", Memory: &Memory{}}
				Load(o)
				write(half)
				res := Load(o)
				if got := strings.Join(names(res.Servers), " "); got != "a" || !strings.Contains(problems(res), "what it said before is used") {
					t.Errorf("half-written: got %q\n%s", got, problems(res))
				}
				if got := names(Load(Options{Home: o.Home}).Servers); len(got) != 0 {
					t.Errorf("without a memory: got %q", got)
				}
				write(strings.ReplaceAll(whole, `"a"`, `"b"`))
				if res := Load(o); strings.Join(names(res.Servers), " ") != "b" || len(res.Problems) != 0 {
					t.Errorf("written: got %q\n%s", names(res.Servers), problems(res))
				}
				write(half)
				Load(o)
				time.Sleep(keepBroken)
				if got := names(Load(o).Servers); len(got) != 0 {
					t.Errorf("left so: got %q", got)
				}
				write(whole)
				Load(o)
				if err := os.Remove(root + "/home/.claude.json"); err != nil {
					t.Fatal(err)
				}
				if got := names(Load(o).Servers); len(got) != 0 {
					t.Errorf("removed: got %q", got)
				}
			})
		})
	}
}

func TestAMemoryIsBounded(t *testing.T) {
	m := &Memory{}
	big := []byte(strings.Repeat("x", maxRemembered/2))
	for _, file := range []string{"a", "b", "c", "a", "a"} {
		m.keep(file, big)
	}
	if _, ok := m.last("c"); ok || m.bytes != maxRemembered {
		t.Errorf("it holds %d bytes, c too: %v", m.bytes, ok)
	}
	m.drop("a")
	m.drop("b")
	if m.bytes != 0 || len(m.files) != 0 {
		t.Errorf("%d bytes and %d files are left", m.bytes, len(m.files))
	}
}
