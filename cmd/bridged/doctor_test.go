package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A fault is what a check is told, and what it must say.
type fault struct {
	name   string
	judge  func() outcome
	code   string // of the finding that there must be; "" for none at all
	text   string // part of its text
	fix    string // its command, whole
	repair string // the deed of --fix, "" for none
}

// testFaults holds that each fault is found, once, and that the command for it
// is one that there is.
func testFaults(t *testing.T, faults []fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			o := f.judge()
			for _, g := range o.findings {
				checkLine(t, g.Command)
			}
			var list []finding
			for _, g := range o.findings {
				if f.code == "" || g.Code == f.code {
					list = append(list, g)
				}
			}
			if f.code == "" {
				if len(list) > 0 {
					t.Errorf("found %+v where nothing is wrong", list)
				}
				return
			}
			if len(list) != 1 {
				t.Fatalf("found %d of %s in %+v", len(list), f.code, o.findings)
			}
			g := list[0]
			if !strings.Contains(g.Text, f.text) || g.Command != f.fix || g.repair.deed != f.repair {
				t.Errorf("got %q\n  $ %s\n  fix %q\nwant %q\n  $ %s\n  fix %q", g.Text, g.Command, g.repair.deed, f.text, f.fix, f.repair)
			}
		})
	}
}

// programs of systems that commands may use.
var systemPrograms = strings.Fields(`systemctl loginctl timedatectl podman docker colima orbctl brew apt-get dnf zypper pacman apk pipx
	chmod chown usermod sysctl swapoff mount sed update-grub grubby mkdir printf tee sudoedit rm mv ls du sort tail grep kill fuser make export unset`)

// checkLine holds that a command line can be typed: its programs are known, and
// our own commands and flags exist.
func checkLine(t *testing.T, line string) {
	t.Helper()
	if line == "" {
		return
	}
	quoted := regexp.MustCompile(`'[^']*'`)
	for _, part := range regexp.MustCompile(`&&|\||;|&$`).Split(quoted.ReplaceAllString(line, "quoted"), -1) {
		words := strings.Fields(part)
		if len(words) > 0 && words[0] == "sudo" {
			words = words[1:]
		}
		switch {
		case len(words) == 0, words[0] == "${EDITOR:-vi}":
		case filepath.Base(words[0]) == "bridged":
			checkOwnCommand(t, words[1:])
		case !slices.Contains(systemPrograms, words[0]):
			t.Errorf("%q: nobody knows %q", line, words[0])
		}
	}
}

func checkOwnCommand(t *testing.T, args []string) {
	t.Helper()
	cmd, rest, err := rootCommand().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err == nil && cmd.Name() == "doctor" {
		names, _ := cmd.Flags().GetStringSlice("check")
		_, err = chooseChecks(names)
	}
	if err != nil || !cmd.Runnable() {
		t.Errorf("bridged %s: %v", strings.Join(args, " "), err)
	}
}

func TestEveryKindIsFoundSomewhereAndTested(t *testing.T) {
	sources, err := filepath.Glob("doctor*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code, tests strings.Builder
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests.Write(text)
		case path != "doctor_kinds.go":
			code.Write(text)
		}
	}
	known := map[string]bool{}
	for _, k := range kinds {
		family, _, _ := strings.Cut(k.code, ".")
		if known[k.code] || family != "doctor" && !slices.ContainsFunc(checks, func(c check) bool { return c.name == family }) {
			t.Errorf("%s is there twice, or is of no check", k.code)
		}
		known[k.code] = true
		if !strings.Contains(code.String(), `"`+k.code+`"`) {
			t.Errorf("nothing finds %s", k.code)
		}
		if !strings.Contains(tests.String(), `"`+k.code+`"`) {
			t.Errorf("no test has %s found", k.code)
		}
	}
	for _, m := range regexp.MustCompile(`(?:found|add)\("([a-z]+\.[a-z0-9]+)"`).FindAllStringSubmatch(code.String(), -1) {
		if !known[m[1]] {
			t.Errorf("%s is not in the list of kinds", m[1])
		}
	}
}

func TestDoctorDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	for _, c := range checks {
		if row := "| `" + c.name + "` | " + c.about + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("docs/doctor.md lacks: %s", row)
		}
	}
	for _, k := range kinds {
		if row := "| `" + k.code + "` | " + k.level + " | " + k.meaning + " |\n"; !strings.Contains(string(text), row) {
			t.Errorf("docs/doctor.md lacks: %s", row)
		}
	}
	fields := jsonFields(t)
	for _, name := range fields {
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("docs/doctor.md does not describe the field %s", name)
		}
	}
	if want := len(checks) + len(kinds) + len(fields); rows != want {
		t.Errorf("docs/doctor.md has %d rows, and there are %d checks, kinds and fields", rows, want)
	}
}

// jsonFields are the names of all fields that a report may have.
func jsonFields(t *testing.T) []string {
	t.Helper()
	full := finding{Code: "a", Level: "a", Subject: "a", Text: "a", Command: "a"}
	r := doctorReport{Checks: []checkReport{{Summary: "a", Findings: []finding{full}}}, Repairs: []repairReport{{Code: "a", Subject: "a", Done: "a", Error: "a"}}}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(data), -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// testPatient is one in an empty home.
func testPatient(t *testing.T, f doctorFlags) *patient {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "CONTAINER_HOST", "DOCKER_HOST", "BRIDGED_CONFIG"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("BRIDGED_SOCKET", filepath.Join(home, "run", "mcp.sock"))
	t.Setenv("MCP_BRIDGE_RUNTIME", "unix://"+filepath.Join(home, "no-engine.sock"))
	t.Chdir(home)
	p, err := newPatient(&pflag.FlagSet{}, f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A check that panics, and one that hangs whatever its context says, hide no
// other.
func TestABrokenCheckHidesNoOther(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	p := testPatient(t, doctorFlags{})
	r := p.examine(t.Context(), []check{
		{"panics", "", time.Minute, func(context.Context, *patient) outcome { panic("oh") }},
		{"hangs", "", 10 * time.Millisecond, func(context.Context, *patient) outcome { <-forever; return outcome{} }},
		{"works", "", time.Minute, func(context.Context, *patient) outcome { return outcome{summary: "fine"} }},
		{"skips", "", time.Minute, func(context.Context, *patient) outcome { return outcome{skipped: "no"} }},
	})
	var got []string
	for _, c := range r.Checks {
		text := c.Name + " " + c.Status
		for _, f := range c.Findings {
			text += " " + f.Code
		}
		got = append(got, text)
	}
	want := []string{"panics error " + "doctor.broken", "hangs error " + "doctor.timeout", "works ok", "skips skipped"}
	if !slices.Equal(got, want) || r.Status != levelError {
		t.Errorf("got %q, %s", got, r.Status)
	}
	for _, code := range []string{"doctor.broken", "doctor.timeout"} {
		if found(code, "", "", "").Level != levelError {
			t.Errorf("%s is no error", code)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for status, want := range map[string]int{statusOK: 0, levelWarning: 2, levelError: 1} {
		err := doctorReport{Status: status}.exit()
		code, _ := errors.AsType[exitCode](err)
		if int(code) != want || (err == nil) != (want == 0) {
			t.Errorf("%s: got %v, want %d", status, err, want)
		}
	}
	worst := statusOK
	for _, next := range []string{statusSkipped, levelNote, statusOK} {
		if worst = worse(worst, next); worst != statusOK {
			t.Errorf("%s makes it %s", next, worst)
		}
	}
	if got := worse(worse(statusOK, levelError), levelWarning); got != levelError {
		t.Errorf("an error and a warning are %s", got)
	}
	if got := worse(statusSkipped, levelNote); got != statusSkipped {
		t.Errorf("a note makes a skipped check %s", got)
	}
}

// Whatever a stranger has put into a text, it can't move the cursor.
func TestReportsAreSafeToShow(t *testing.T) {
	r := doctorReport{Status: levelError, Checks: []checkReport{{Name: "servers", Status: levelError, Summary: "a\x1b[2Jb", Findings: []finding{
		found("servers.unusable", "x", "first\nsecond \x1b[31m", "bridged doctor"),
	}}}}
	var b bytes.Buffer
	if err := r.show(&b, false); err != nil {
		t.Fatal(err)
	}
	want := "✗ servers   a\\u001b[2Jb\n    ✗ x: first\n      second \\u001b[31m\n      $ bridged doctor\n\n1 error and 0 warnings\n"
	if b.String() != want {
		t.Errorf("got %q\nwant %q", b.String(), want)
	}
}

// Looking changes nothing: not even a folder is made.
func TestDoctorChangesNothing(t *testing.T) {
	p := testPatient(t, doctorFlags{})
	r := p.examine(t.Context(), checks)
	list, err := os.ReadDir(p.home)
	if err != nil || len(list) > 0 {
		t.Errorf("doctor made %v, %v", list, err)
	}
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			checkLine(t, f.Command)
		}
		if c.Name == "engine" && (len(c.Findings) != 1 || c.Findings[0].Code != "engine.missing") {
			t.Errorf("%+v", c)
		}
	}
}

func TestUnknownChecksAreRefused(t *testing.T) {
	if _, err := chooseChecks([]string{"disk", "dsik"}); err == nil || !strings.Contains(err.Error(), "engine") {
		t.Errorf("got %v", err)
	}
	list, err := chooseChecks([]string{"disk", "clock"})
	if err != nil || len(list) != 2 {
		t.Errorf("got %v, %v", list, err)
	}
}
