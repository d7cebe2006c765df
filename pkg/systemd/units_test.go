package systemd

import (
	"strings"
	"testing"
)

func TestProgramsAreNamedAsSystemdReadsThem(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/bridged":            "ExecStart=/usr/bin/bridged serve\n",
		"/home/a b/bridged":           `ExecStart="/home/a b/bridged" serve` + "\n",
		`/home/100%/$x/"q"/b\ridged`:  `ExecStart="/home/100%%/$$x/\"q\"/b\\ridged" serve` + "\n",
		"/home/it's; rm -rf /bridged": `ExecStart="/home/it's; rm -rf /bridged" serve` + "\n",
		"/home/größe/bridged":         "ExecStart=/home/größe/bridged serve\n",
	} {
		units, err := Units(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(units[ServiceUnit], want) {
			t.Errorf("%s: got %s", path, units[ServiceUnit])
		}
	}
}

func TestProgramsThatNoUnitCanNameAreRefused(t *testing.T) {
	for path, want := range map[string]string{"bin/bridged": "must be absolute", "/home/a\nExecStart=/bin/sh": "control character"} {
		if _, err := Units(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}
