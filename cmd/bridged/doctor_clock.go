package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

const (
	// maxSkew is how far an engine's clock may be from ours. It tells seconds,
	// and takes a moment to do so.
	maxSkew = 5 * time.Second
	// maxJump is how far the clock may be set while it is looked at.
	maxJump = 2 * time.Second
	// futureSlack is how far a file of ours may be ahead of the clock.
	futureSlack = 2 * time.Minute
)

// earliest is before this program was written: a clock that shows less is wrong,
// and certificates are not valid then.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// zoneRule matches what TZ may hold besides names, see tzset(3).
var zoneRule = regexp.MustCompile(`^:|^([A-Za-z]{3,}|<[^>]+>)[+-]?[0-9]`)

// clockFacts are what is known of clocks.
type clockFacts struct {
	now     time.Time
	elapsed time.Duration // while looking, by a clock that can't be set
	wall    time.Duration // the same by the clock of the day
	engine  answer
	where   string // the engine's endpoint
	virtual string // the command that sets the clock of the engine's virtual machine
	zone    string // TZ
	zoneErr error
	local   error  // why /etc/localtime can't be used
	future  string // a file of ours that is newer than now
	ahead   time.Duration
}

func checkClock(_ context.Context, p *patient) outcome {
	began := time.Now()
	e := p.engine()
	f := clockFacts{zone: os.Getenv("TZ")}
	if e.at != nil {
		f.engine, f.where = e.at.answer, e.at.Endpoint
		switch e.at.Why {
		case "Podman machine":
			f.virtual = "podman machine ssh sudo chronyc makestep"
		case "Colima":
			f.virtual = "colima restart"
		case "OrbStack":
			f.virtual = "orbctl restart"
		}
	}
	if f.zone != "" && !zoneRule.MatchString(f.zone) {
		_, f.zoneErr = time.LoadLocation(f.zone)
	}
	if target, err := os.Readlink("/etc/localtime"); err == nil {
		if _, err := os.Stat("/etc/localtime"); errors.Is(err, fs.ErrNotExist) {
			f.local = fmt.Errorf("/etc/localtime leads to %s, which is not there", target)
		}
	}
	f.now = time.Now()
	f.elapsed, f.wall = f.now.Sub(began), f.now.Round(0).Sub(began.Round(0))
	if p.pathsErr == nil {
		f.future, f.ahead = newest(p.paths.state, f.now)
	}
	return f.judge()
}

// newest returns the file in a folder that is farthest ahead of now.
func newest(dir string, now time.Time) (path string, ahead time.Duration) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", 0 // there is nothing yet
	}
	for _, entry := range list {
		info, err := entry.Info()
		if err != nil {
			continue // it has just gone
		}
		if d := info.ModTime().Sub(now); d > ahead {
			path, ahead = filepath.Join(dir, entry.Name()), d
		}
	}
	return path, ahead
}

// setClock is the command that has the clock set and kept right.
const setClock = "sudo timedatectl set-ntp true"

func (f clockFacts) judge() outcome {
	o := outcome{summary: f.now.Format("2006-01-02 15:04:05 MST")}
	add := func(code, subject, text, fix string) {
		o.findings = append(o.findings, found(code, subject, text, fix))
	}
	if f.now.Before(earliest) {
		add("clock.wrong", "", "the clock shows "+f.now.Format(time.DateOnly)+": no server's certificate is valid at that time", setClock)
	}
	if jump := (f.wall - f.elapsed).Abs(); jump > maxJump {
		add("clock.jump", "", fmt.Sprintf("the clock was set by %s while it was looked at", jump.Round(time.Millisecond)), setClock)
	}
	if f.ahead > futureSlack {
		add("clock.future", f.future, fmt.Sprintf("%s is %s newer than now: the clock was ahead, or is behind", f.future, f.ahead.Round(time.Second)), setClock)
	}
	if !f.engine.date.IsZero() {
		skew := f.engine.date.Sub(f.engine.at)
		if skew.Abs() > maxSkew+f.engine.roundTrip {
			add("clock.skew", f.where, fmt.Sprintf("the engine's clock is %s %s ours", skew.Abs().Round(time.Second), beforeOrAfter(skew)), or(f.virtual, setClock))
		} else {
			o.summary += "; the engine agrees"
		}
	}
	if f.zoneErr != nil {
		add("clock.zone", "TZ", "TZ names a time zone that is not known here: "+f.zone, "unset TZ")
	}
	if f.local != nil {
		add("clock.zone", "/etc/localtime", f.local.Error(), "sudo timedatectl set-timezone UTC")
	}
	return o
}

func beforeOrAfter(skew time.Duration) string {
	if skew < 0 {
		return "behind"
	}
	return "ahead of"
}
