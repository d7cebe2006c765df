package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// serviceTimeout bounds the wait for a Podman service's first answer. The first
// start of a new user's Podman makes its storage.
const serviceTimeout = 30 * time.Second

// An engine is the container engine of the demo.
type engine struct {
	address string // for MCP_BRIDGE_RUNTIME; empty lets the daemon look
	service *child // the Podman service that the demo started, or nil
	conf    string // the containers.conf of that service, empty if it needs none
}

func (e *engine) stop() error { return e.service.stop() }

// advice says what the user's own daemon will miss once the demo is over.
func (e *engine) advice() string {
	if e.service == nil {
		return ""
	}
	command := "systemctl --user enable --now podman.socket"
	switch {
	case !systemd():
		command = "podman system service --time=0 &"
	case os.Geteuid() == 0:
		command = "systemctl enable --now podman.socket"
	}
	text := "The demo's Podman service ends with it. For your own use, start Podman's:\n\n  " + command
	if e.conf != "" {
		text += "\n\nOn this machine it needs settings of its own, as /etc/containers/containers.conf\n" +
			"or in the variable CONTAINERS_CONF. The demo used these: " + e.conf
	}
	return text
}

// systemd reports whether systemd runs this machine.
func systemd() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// reachEngine finds the engine that the user names or runs, and starts a Podman
// service of our own where there is none.
func reachEngine(ctx context.Context, p places) (*engine, error) {
	if named := os.Getenv("MCP_BRIDGE_RUNTIME"); named != "" {
		fmt.Println("  MCP_BRIDGE_RUNTIME names it:", named)
		return &engine{address: named}, nil
	}
	for _, path := range usualSockets() {
		if answers(ctx, path) {
			fmt.Println("  found one at", path)
			return &engine{address: "unix://" + path}, nil
		}
	}
	if runtime.GOOS != "linux" {
		// Machines of Podman and Docker have sockets in many places, and
		// the daemon knows them.
		fmt.Println("  leaving it to the daemon to find one")
		return &engine{}, nil
	}
	return startPodman(ctx, p)
}

// usualSockets lists where this user's Podman listens, and then Docker.
func usualSockets() []string {
	sockets := []string{"/run/podman/podman.sock", "/var/run/docker.sock"}
	if os.Geteuid() == 0 {
		return sockets
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = fmt.Sprintf("/run/user/%d", os.Geteuid())
	}
	return append([]string{filepath.Join(dir, "podman", "podman.sock")}, sockets...)
}

// answers reports whether a container engine answers on a socket.
func answers(ctx context.Context, path string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// startPodman starts a Podman service, rootless for an ordinary user.
func startPodman(ctx context.Context, p places) (*engine, error) {
	kind := "rootless"
	if os.Geteuid() == 0 {
		kind = "rootful"
	}
	fmt.Printf("  found none: starting a %s Podman service for the demo\n", kind)
	log := filepath.Join(p.out, "demo-podman.log")
	socket := filepath.Join(p.private, "podman.sock")
	cmd := exec.Command("podman", "system", "service", "--time=0", "unix://"+socket)
	conf, err := preparePodman(p)
	if err != nil {
		return nil, fmt.Errorf("preparing Podman: %w", err)
	}
	if conf != "" {
		cmd.Env = append(os.Environ(), "CONTAINERS_CONF="+conf)
	}
	service, err := startChild("the Podman service", cmd, log)
	if err != nil {
		return nil, err
	}
	e := &engine{address: "unix://" + socket, service: service, conf: conf}
	for deadline := time.Now().Add(serviceTimeout); !answers(ctx, socket); time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil || service.ended() || time.Now().After(deadline) {
			_ = service.stop() // the error below is the one to tell
			return nil, fmt.Errorf("waiting for the Podman service: it does not answer; it said:\n%s", tail(log))
		}
	}
	return e, nil
}

// preparePodman makes Podman work here, and returns the containers.conf that it
// needs, if it needs one.
func preparePodman(p places) (string, error) {
	if os.Geteuid() != 0 {
		if err := chooseOverlay(); err != nil {
			return "", err
		}
	}
	conf := podmanConf()
	if conf == "" || os.Getenv("CONTAINERS_CONF") != "" {
		return "", nil
	}
	path := filepath.Join(p.out, "demo-containers.conf")
	fmt.Println("  with settings for this machine:", path)
	return path, os.WriteFile(path, []byte(conf), 0o644)
}

// chooseOverlay sets the storage driver of a user who has never used Podman.
// Debian's Podman would take vfs, which copies the image for every container,
// and the first choice stays.
func chooseOverlay() error {
	config, err := os.UserConfigDir()
	if err != nil {
		return err
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(os.Getenv("HOME"), ".local", "share")
	}
	conf := filepath.Join(config, "containers", "storage.conf")
	for _, path := range []string{conf, "/etc/containers/storage.conf", filepath.Join(data, "containers", "storage")} {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	fmt.Println("  this is your first use of Podman: writing", conf, "so that it uses overlay")
	if err := os.MkdirAll(filepath.Dir(conf), 0o755); err != nil {
		return err
	}
	return os.WriteFile(conf, []byte("[storage]\ndriver = \"overlay\"\n"), 0o644)
}

// podmanConf returns what a containers.conf must say so that Podman can run
// containers here, and nothing on a machine that needs no help.
func podmanConf() string {
	var containers, engine []string
	// crun refuses cgroups of version 1, and so what is not version 2 alone.
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		engine = append(engine, `runtime = "runc"`)
	}
	if !systemd() {
		engine = append(engine, `cgroup_manager = "cgroupfs"`, `events_logger = "file"`)
	}
	// Podman raises the limit to this unless told otherwise.
	const usual = 1 << 20
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Max < usual {
		containers = append(containers, fmt.Sprintf(`default_ulimits = ["nofile=%d:%d"]`, limit.Max, limit.Max))
	}
	var conf strings.Builder
	if len(containers) > 0 {
		fmt.Fprintf(&conf, "[containers]\n%s\n", strings.Join(containers, "\n"))
	}
	if len(engine) > 0 {
		fmt.Fprintf(&conf, "[engine]\n%s\n", strings.Join(engine, "\n"))
	}
	return conf.String()
}
