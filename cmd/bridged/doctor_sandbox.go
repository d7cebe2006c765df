package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/sandbox"
)

const (
	// launchTimeout bounds the making of a sandbox, which takes about a second,
	// and several on an engine that has not seen the image since it started.
	launchTimeout = 60 * time.Second

	// labelDoctor is on the sandboxes that doctor makes. They carry no daemon's
	// name, so that none takes one for a leftover of its own.
	labelDoctor = "io.bridged.doctor"
)

// launchFacts are what came of making a sandbox.
type launchFacts struct {
	skipped  string // why none was made
	err      error
	took     time.Duration
	python   string
	degraded []string
	posture  *sandbox.Posture
	spec     runtime.Spec
	left     bool // its container could not be removed
	image    string
}

// tryLaunch makes a sandbox as the daemon would, and removes it.
func (p *patient) tryLaunch(ctx context.Context) launchFacts {
	f := launchFacts{spec: p.conf.spec(), image: string(p.conf.Sandbox.Image)}
	e := p.engine()
	switch {
	case p.flags.quick:
		f.skipped = "--quick makes none"
	case e.engine == nil:
		f.skipped = "there is no engine"
	}
	if f.skipped != "" {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	if mounts, _, err := p.mounts(); err == nil && p.pathsErr == nil {
		f.spec.Mounts = mounts.mounts()
	}
	f.spec.Labels = map[string]string{labelDoctor: "true", runtime.LabelVersion: version}
	began := time.Now()
	s, err := sandbox.Launch(ctx, e.engine, sandbox.Options{
		Spec: f.spec, Boot: images.Boot(), Payload: images.Payload(), Imports: p.conf.Sandbox.Imports,
		Logger: zerolog.Nop(), Abandon: func(runtime.ID) { f.left = true },
	})
	f.took, f.err = time.Since(began), err
	if err != nil {
		return f
	}
	f.python, f.degraded, f.posture = s.Python, s.Degraded, s.Posture
	s.Close()
	return f
}

func checkSandbox(_ context.Context, p *patient) outcome { return p.launch().judge() }

func (f launchFacts) judge() outcome {
	if f.skipped != "" {
		return outcome{skipped: f.skipped}
	}
	if errors.Is(f.err, runtime.ErrNoImage) {
		return outcome{skipped: "there is no image"}
	}
	if f.err != nil {
		return outcome{findings: []finding{f.failed()}}
	}
	o := outcome{summary: fmt.Sprintf("made and attested in %s, Python %s", f.took.Round(10*time.Millisecond), f.python)}
	for _, d := range f.degraded {
		if !isLimit(d) && !strings.Contains(d, "seccomp") { // of which other checks tell
			o.findings = append(o.findings, found("sandbox.weaker", "", d, ""))
		}
	}
	if f.left {
		o.findings = append(o.findings, found("sandbox.left", "", "the engine did not remove the sandbox", shellLine("bridged", "doctor", "--check", "state", "--fix")))
	}
	return o
}

// isLimit reports whether something that is degraded is a limit of memory or
// processes.
func isLimit(degraded string) bool {
	return strings.Contains(degraded, "rlimit") || strings.Contains(degraded, "swap") || strings.Contains(degraded, "cgroups")
}

// dropIn is the command that adds a setting to Podman's own, in a file of its
// own.
func dropIn(section, setting string) string {
	return fmt.Sprintf(`mkdir -p ~/.config/containers/containers.conf.d && printf '[%s]\n%s\n' >~/.config/containers/containers.conf.d/bridged-%s.conf`, section, setting, section)
}

// launchTroubles are errors of engines that one command mends.
var launchTroubles = []struct{ sign, text, command string }{
	{"no space left", "the engine's disk is full", "podman system prune"},
	{"cgroups in hybrid mode not supported", "crun does not run with hybrid cgroups; runc does", dropIn("engine", `runtime = "runc"`)},
	{"RLIMIT_NOFILE", "the engine's default of open files is above what this machine allows", dropIn("containers", `default_ulimits = ["nofile=4096:4096"]`)},
	{"RLIMIT_NPROC", "the engine's default of processes is above what this machine allows", dropIn("containers", `default_ulimits = ["nproc=4096:4096"]`)},
	{"newuidmap", "ids can't be mapped", "bridged doctor --check rootless"},
	{"subuid", "ids can't be mapped", "bridged doctor --check rootless"},
	{"potentially insufficient UIDs", "ids can't be mapped", "bridged doctor --check rootless"},
	{"python3", "the image has no Python 3.9 or later", "bridged image build"},
	{"database is locked", "another Podman holds the engine's database", "systemctl --user restart podman.service"},
	{"invalid internal status", "Podman's own state is from before a restart of the machine", "podman system migrate"},
}

func (f launchFacts) failed() finding {
	text := f.err.Error()
	if strings.Contains(text, "not hardened as asked") {
		fix := ""
		if strings.Contains(text, "containers.conf") {
			fix = edit("~/.config/containers/containers.conf", 0)
		}
		return found("sandbox.refused", f.image, text, strings.ReplaceAll(fix, "'", ""))
	}
	for _, t := range launchTroubles {
		if strings.Contains(text, t.sign) {
			return found("sandbox.failed", f.image, t.text+": "+text, t.command)
		}
	}
	if isTimeout(f.err) {
		return found("sandbox.slow", f.image, fmt.Sprintf("no sandbox was ready within %s: %s", launchTimeout, text), shellLine("bridged", "doctor", "--check", "disk", "--check", "engine"))
	}
	return found("sandbox.failed", f.image, text, shellLine("bridged", "image", "build"))
}

// imageFacts are what the engine says of the sandbox image.
type imageFacts struct {
	ref   string
	image runtime.Image
	err   error
	now   time.Time
	built time.Time // when this program was made; zero if it does not say
}

func checkImage(ctx context.Context, p *patient) outcome {
	e := p.engine()
	if e.engine == nil {
		return outcome{skipped: "there is no engine"}
	}
	f := imageFacts{ref: string(p.conf.Sandbox.Image), now: time.Now(), built: builtAt()}
	f.image, f.err = e.engine.Image(ctx, f.ref)
	return f.judge()
}

// builtAt is when this program was made: the time of its sources, or else of its
// file.
func builtAt() time.Time {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil && s.Key == "vcs.time" {
				return t
			}
		}
	}
	path, err := os.Executable()
	if err != nil {
		return time.Time{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// maxImageAge is the age past which an image lacks too many security updates.
const maxImageAge = 180 * 24 * time.Hour

func (f imageFacts) judge() outcome {
	own := f.ref == defaultImage || strings.HasPrefix(f.ref, "localhost/")
	get := shellLine("bridged", "image", "pull", f.ref)
	if own {
		get = shellLine("bridged", "image", "build")
	}
	switch {
	case errors.Is(f.err, runtime.ErrNoImage):
		return outcome{findings: []finding{found("image.missing", f.ref, "the engine does not have the sandbox image "+f.ref, get).with(repair{deed: repairImage, path: f.ref})}}
	case f.err != nil:
		return outcome{findings: []finding{found("image.unknown", f.ref, "asking for the sandbox image: "+f.err.Error(), shellLine("bridged", "doctor", "--check", "engine"))}}
	}
	o := outcome{summary: fmt.Sprintf("%s, %d MB", f.ref, f.image.Size/1e6)}
	if f.image.Created.Year() < earliest.Year()-10 { // it was built to be the same each time
		return o
	}
	old := f.now.Sub(f.image.Created)
	o.summary += ", of " + f.image.Created.Format(time.DateOnly)
	switch {
	case old > maxImageAge:
		o.findings = append(o.findings, found("image.old", f.ref, fmt.Sprintf("the image is %d days old, and so are its packages", int(old.Hours()/24)), get))
	case own && f.image.Labels[runtime.LabelImage] == "":
		o.findings = append(o.findings, found("image.foreign", f.ref, "the image was not made by bridged (it has no label "+runtime.LabelImage+"): it may lack the packages that agents are told of", get))
	case own && f.built.Sub(f.image.Created) > staleImage:
		o.findings = append(o.findings, found("image.stale", f.ref, fmt.Sprintf("the image is %d days older than this bridged, whose own recipe may be newer", int(f.built.Sub(f.image.Created).Hours()/24)), get))
	}
	return o
}

// staleImage is how much older than the program an image may be.
const staleImage = 30 * 24 * time.Hour
