package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/runtime/docker"
	"github.com/bridged/bridged/pkg/runtime/podman"
)

const (
	// pingTimeout bounds one question at one place, as the daemon's does. A service
	// that a socket starts answers within a second or two, on a busy machine later.
	pingTimeout = 10 * time.Second
	// connectTimeout bounds what follows: the driver's own first questions.
	connectTimeout = 15 * time.Second
	// minDockerAPI and minPodman are the oldest that the drivers speak with.
	minDockerAPI = "1.41"
	minPodman    = "4.0"
)

// A placeFacts is what is seen at one place where an engine may listen.
type placeFacts struct {
	runtime.Candidate
	path   string // of its socket; "" for other endpoints
	there  bool   // something is at path
	socket bool   // and it is a socket
	mode   fs.FileMode

	unasked bool // it can't be asked without its driver
	answer  answer
	err     error // of asking
}

// An answer is what an engine says of itself without being asked for more.
type answer struct {
	product   string // "podman" or "docker"
	version   string // of the product; "" if it does not say
	api       string // version of Docker's API
	date      time.Time
	at        time.Time     // when the answer was on its way, by our clock
	roundTrip time.Duration // how long it took
}

// engineFacts are the places, and the engine that the daemon would use.
type engineFacts struct {
	places []placeFacts
	choice error          // the configuration's choice is none
	engine runtime.Engine // nil if none is reached
	info   runtime.Info
	at     *placeFacts // where it is

	install string // the command that installs Podman; "" if it is there, or nobody knows
	start   string // the command that starts Podman's socket
	mend    repair // starts Podman's socket, if something can
	docker  string // the command that installs Docker, or starts it

	user       string // name
	runtimeDir string // XDG_RUNTIME_DIR
	file       string // of the configuration
	line       int    // of engine.runtime in it
	getenv     func(string) string
}

// askEngines looks at all places at once, then connects to the first that
// answers, in the order in which the daemon tries them.
func (p *patient) askEngines(ctx context.Context) engineFacts {
	f := engineFacts{user: p.user, getenv: p.getenv, runtimeDir: p.getenv("XDG_RUNTIME_DIR"), file: p.file, line: p.lineOf("engine", "runtime")}
	places, err := runtime.Candidates(p.getenv, runtime.DetectOptions{Runtime: string(p.conf.Engine.Runtime), UID: p.uid, GOOS: goruntime.GOOS})
	if err != nil {
		f.choice = err
		return f
	}
	f.places = make([]placeFacts, len(places))
	var asking sync.WaitGroup
	for i, c := range places {
		asking.Go(func() { f.places[i] = lookAtPlace(ctx, c) })
	}
	asking.Wait()
	f.connect(ctx)
	if f.engine == nil {
		f.install, f.start, f.mend = p.podmanAdvice(ctx)
		if f.docker = "sudo systemctl enable --now docker.service"; !onPath("dockerd") && !onPath("docker") {
			f.docker = upgrade(runtime.Docker)
		}
	}
	return f
}

// connect dials the places that may have an engine.
func (f *engineFacts) connect(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	dial := map[string]runtime.DialFunc{runtime.Podman: podman.Dial, runtime.Docker: docker.Dial}
	for i := range f.places {
		place := &f.places[i]
		if place.err != nil {
			continue
		}
		e, err := runtime.Detect(ctx, []runtime.Candidate{place.Candidate}, dial)
		if err == nil {
			f.info, err = e.Info(ctx)
		}
		if err != nil {
			place.err = err
			continue
		}
		f.engine, f.at = e, place
		return
	}
}

// local reports whether the engine is on this machine itself, as far as its
// socket tells.
func (f engineFacts) local() bool {
	return f.at != nil && f.at.path != "" && !slices.Contains([]string{"Podman machine", "Docker Desktop", "Colima", "OrbStack"}, f.at.Why)
}

// lookAtPlace looks at a socket and asks who is there.
func lookAtPlace(ctx context.Context, c runtime.Candidate) placeFacts {
	f := placeFacts{Candidate: c}
	if path, ok := strings.CutPrefix(c.Endpoint, "unix://"); ok {
		f.path = path
		info, err := os.Stat(path)
		if err != nil {
			f.err = err
			return f
		}
		f.there, f.socket, f.mode = true, info.Mode().Type() == fs.ModeSocket, info.Mode().Perm()
		if !f.socket {
			f.err = fmt.Errorf("%s is no socket", path)
			return f
		}
	}
	dial := dialerOf(f)
	if dial == nil {
		f.unasked = true
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	f.answer, f.err = ping(ctx, dial)
	return f
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// dialerOf is how a place is reached without a driver; nil for what needs keys.
func dialerOf(f placeFacts) dialer {
	var d net.Dialer
	if f.path != "" {
		return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", f.path) }
	}
	u, err := url.Parse(f.Endpoint)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "http" || os.Getenv("DOCKER_TLS_VERIFY") != "" || os.Getenv("DOCKER_CERT_PATH") != "" {
		return nil
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", u.Host) }
}

// ping asks what is there. Podman and Docker both answer at /_ping, and say in
// the headers what they are.
func ping(ctx context.Context, dial dialer) (answer, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
	if err != nil {
		return answer{}, err
	}
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // it says OK, and the headers count
	took := time.Since(began)
	a := answer{api: resp.Header.Get("Api-Version"), roundTrip: took, at: began.Add(took / 2)}
	a.date, _ = http.ParseTime(resp.Header.Get("Date")) // an engine without one is not asked for the time
	switch server := resp.Header.Get("Server"); {
	case resp.Header.Get("Libpod-Api-Version") != "":
		a.product, a.version = runtime.Podman, resp.Header.Get("Libpod-Api-Version")
	case a.api != "":
		a.product = runtime.Docker
		a.version, _, _ = strings.Cut(strings.TrimPrefix(server, "Docker/"), " ")
	default:
		return a, fmt.Errorf("what listens there is no container engine: it answered %s", resp.Status)
	}
	return a, nil
}

func checkEngine(_ context.Context, p *patient) outcome { return p.engine().judge() }

func (f engineFacts) judge() outcome {
	if f.choice != nil {
		place := placeFacts{Candidate: runtime.Candidate{Why: "the configuration"}}
		if f.getenv("MCP_BRIDGE_RUNTIME") != "" {
			place.Why = "MCP_BRIDGE_RUNTIME"
		}
		return outcome{findings: []finding{found("engine.choice", "", f.choice.Error(), f.changeChoice(place))}}
	}
	var o outcome
	if f.engine != nil {
		o.summary = describeInfo(f.info)
	}
	for _, place := range f.places {
		o.findings = append(o.findings, f.judgePlace(place)...)
		if f.at != nil && place.Endpoint == f.at.Endpoint {
			break // the daemon looks no further
		}
	}
	if f.engine == nil && !slices.ContainsFunc(o.findings, func(g finding) bool { return g.Level == levelError }) {
		o.findings = append([]finding{f.none()}, o.findings...)
	}
	return o
}

func describeInfo(i runtime.Info) string {
	mode := "rootful"
	if i.Rootless {
		mode = "rootless"
	}
	return fmt.Sprintf("%s %s, %s, API %s, at %s", i.Name, i.Version, mode, i.APIVersion, i.Endpoint)
}

// judgePlace tells what is wrong at one place. Where another place has an engine,
// less is wrong.
func (f engineFacts) judgePlace(place placeFacts) []finding {
	var list []finding
	add := func(code, text, fix string) {
		g := found(code, place.Endpoint, text, fix)
		if f.engine != nil && code != "engine.open" && code != "engine.exposed" {
			g.Level = levelWarning
		}
		list = append(list, g)
	}
	switch {
	case place.err == nil:
	case isTimeout(place.err):
		add("engine.hung", fmt.Sprintf("what listens at %s (%s) does not answer within %s, and the daemon waits for it at each search", place.Endpoint, place.Why, pingTimeout), f.restartEngine(place))
	case isDenied(place.err):
		add("engine.denied", fmt.Sprintf("you may not use %s (%s): permission denied", place.Endpoint, place.Why), f.admit(place))
	case tooOld(place.answer):
		add("engine.old", fmt.Sprintf("%s %s at %s is too old: bridged needs Podman %s or Docker 20.10 (API %s)", place.answer.product, place.answer.version, place.Endpoint, minPodman, minDockerAPI), upgrade(place.answer.product))
	case place.there && !isRefused(place.err):
		add("engine.broken", fmt.Sprintf("%s (%s): %s", place.Endpoint, place.Why, place.err), f.restartEngine(place))
	case place.Explicit && f.engine == nil && !strings.Contains(place.Why, ", "): // else an engine was chosen, and no place
		add("engine.missing", fmt.Sprintf("%s was chosen by %s, and nothing answers there: %s", place.Endpoint, place.Why, whyAbsent(place.err)), f.startEngine(place))
		if f.mend.deed != "" && strings.HasSuffix(place.path, podmanSocket) {
			list[len(list)-1] = list[len(list)-1].with(f.mend)
		}
	}
	if place.there && place.mode&0o002 != 0 {
		add("engine.open", fmt.Sprintf("anybody on this machine may write to %s (mode %04o), and so has all that the engine has", place.path, place.mode), shellLine("sudo", "chmod", "o-rw", place.path))
	}
	if exposedEndpoint(place.Endpoint) {
		add("engine.exposed", fmt.Sprintf("%s is reached over the network without encryption: whoever is in between has the engine", place.Endpoint), f.changeChoice(place))
	}
	return list
}

// none is that no engine is anywhere.
func (f engineFacts) none() finding {
	var b strings.Builder
	b.WriteString("no container engine answers at any place")
	for _, place := range f.places {
		why := "not there"
		if place.err != nil {
			why = whyAbsent(place.err)
		}
		fmt.Fprintf(&b, "\n%s (%s): %s", place.Endpoint, place.Why, why)
	}
	if len(f.places) > 0 && !slices.ContainsFunc(f.places, func(p placeFacts) bool { return p.Engine == runtime.Podman }) {
		return found("engine.none", "", b.String(), f.docker)
	}
	g := found("engine.none", "", b.String(), cmp.Or(f.install, f.start))
	if f.mend.deed != "" {
		g = g.with(f.mend)
	}
	return g
}

// podmanSocket ends the paths of Podman's own sockets.
const podmanSocket = "/podman/podman.sock"

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err)
}

func isDenied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), "permission denied")
}

func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || strings.Contains(err.Error(), "connection refused")
}

// whyAbsent is why nothing answers, in a few words where it is one of the usual.
func whyAbsent(err error) string {
	switch {
	case err == nil:
		return "it did not answer"
	case errors.Is(err, fs.ErrNotExist):
		return "no such socket"
	case isRefused(err):
		return "nothing listens there"
	}
	return err.Error()
}

func tooOld(a answer) bool {
	switch a.product {
	case runtime.Podman:
		return olderThan(a.version, minPodman)
	case runtime.Docker:
		return olderThan(a.api, minDockerAPI)
	}
	return false
}

// olderThan compares the first two numbers of versions. What is none is not
// older.
func olderThan(a, b string) bool {
	x, y := versionNumbers(a), versionNumbers(b)
	return len(x) == 2 && len(y) == 2 && slices.Compare(x, y) < 0
}

func versionNumbers(v string) []int {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) < 2 {
		return nil
	}
	var list []int
	for _, part := range parts[:2] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		list = append(list, n)
	}
	return list
}

// restartEngine is the command that restarts what hangs at a place, or has
// another place used where nobody knows what it is.
func (f engineFacts) restartEngine(place placeFacts) string {
	switch place.Why {
	case "Podman machine":
		return "podman machine stop; podman machine start"
	case "Docker Desktop":
		return "systemctl --user restart docker-desktop"
	case "Colima":
		return "colima restart"
	case "OrbStack":
		return "orbctl restart"
	}
	own := f.runtimeDir != "" && strings.HasPrefix(place.path, f.runtimeDir+"/") || strings.HasPrefix(place.path, "/run/user/")
	switch {
	case own && strings.HasSuffix(place.path, podmanSocket):
		return "systemctl --user restart podman.socket podman.service"
	case own && strings.HasSuffix(place.path, "/docker.sock"):
		return "systemctl --user restart docker.service"
	case place.path == "/run"+podmanSocket:
		return "sudo systemctl restart podman.socket podman.service"
	case place.path == "/run/docker.sock", place.path == "/var/run/docker.sock":
		return "sudo systemctl restart docker.service"
	}
	return f.changeChoice(place)
}

// changeChoice is the command that takes back the choice of a place.
func (f engineFacts) changeChoice(place placeFacts) string {
	name, _, _ := strings.Cut(place.Why, ", ")
	if strings.Contains(name, " ") { // it is no variable
		return edit(f.file, f.line)
	}
	return "unset " + name
}

// startEngine is the command that starts what was chosen.
func (f engineFacts) startEngine(place placeFacts) string {
	if strings.HasSuffix(place.path, podmanSocket) {
		return cmp.Or(f.install, f.start)
	}
	return f.restartEngine(place)
}

// admit is the command that lets the user use an engine.
func (f engineFacts) admit(place placeFacts) string {
	if place.Engine == runtime.Podman {
		return cmp.Or(f.start, "systemctl --user enable --now podman.socket")
	}
	return shellLine("sudo", "usermod", "-aG", "docker", cmp.Or(f.user, "$USER")) // counts from the next login on
}

// upgrade is the command that gets a newer engine.
func upgrade(product string) string {
	if product == runtime.Docker {
		return installPackage(onPath, map[string]string{"": "docker", "apt-get": "docker.io"})
	}
	return installPackage(onPath, map[string]string{"": "podman"})
}

// exposedEndpoint reports whether an endpoint is another machine's and in the
// clear.
func exposedEndpoint(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "tcp" && u.Scheme != "http" || os.Getenv("DOCKER_TLS_VERIFY") != "" {
		return false
	}
	host := u.Hostname()
	if host == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.IsLoopback()
}
