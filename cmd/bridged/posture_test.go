package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bridged/bridged/pkg/ops"
	"github.com/bridged/bridged/pkg/sandbox"
)

func posture() *sandbox.Posture {
	memory, pids := int64(512<<20), int64(128)
	return &sandbox.Posture{
		Status: map[string][]string{
			"Uid": {"65534", "65534", "65534", "65534"}, "Gid": {"65533", "65533", "65533", "65533"}, "CapBnd": {"0000000000000000"},
			"NoNewPrivs": {"1"}, "Seccomp": {"2"}, "Seccomp_filters": {"2"},
		},
		Interfaces: []string{"lo"}, Memory: &memory, Pids: &pids, Nofile: 4096,
		Mounts: []sandbox.Mount{
			{Target: "/", Type: "overlay", Options: []string{"ro"}, Size: 1 << 40},
			{Target: "/tmp", Type: "tmpfs", Options: []string{"rw", "nosuid"}, Size: 1 << 26},
		},
	}
}

func TestStatusShowsWhatHoldsASandbox(t *testing.T) {
	memory, pids := int64(512<<20), int64(128)
	want := ops.Posture{
		UID: "65534", GID: "65533", Capabilities: "none", NoNewPrivs: true, Seccomp: "filter", SeccompFilters: 2,
		OwnFilter: true, ProcessHidden: true, Interfaces: []string{"lo"}, MemoryBytes: &memory, PIDs: &pids, OpenFiles: 4096,
		Mounts: []ops.Mount{
			{Target: "/", Type: "overlay", Options: []string{"ro"}},
			{Target: "/tmp", Type: "tmpfs", Options: []string{"rw", "nosuid"}, Bytes: 1 << 26},
		},
	}
	if diff := cmp.Diff(want, describePosture(posture())); diff != "" {
		t.Errorf("posture (-want +got):\n%s", diff)
	}
}

func TestStatusShowsWhatDoesNotHold(t *testing.T) {
	p := posture()
	p.Status["CapBnd"], p.Status["Seccomp"], p.Status["NoNewPrivs"] = []string{"0000000000000400"}, []string{"0"}, nil
	p.Unfiltered, p.Open, p.Interfaces = "no ctypes", "no ctypes", nil
	got := describePosture(p)
	if got.Capabilities != "0000000000000400" || got.Seccomp != "off" || got.NoNewPrivs || got.OwnFilter || got.ProcessHidden || got.Interfaces == nil {
		t.Errorf("got %+v", got)
	}
}

func TestStatusShowsABoundedNumberOfMounts(t *testing.T) {
	p := posture()
	for i := range 1000 {
		p.Mounts = append(p.Mounts, sandbox.Mount{Target: fmt.Sprint("/m", i)})
	}
	got := describePosture(p)
	if len(got.Mounts) != shownMounts || got.MountsLeftOut != 1002-shownMounts {
		t.Errorf("got %d mounts, %d left out; want %d in all", len(got.Mounts), got.MountsLeftOut, 1002)
	}
}

func TestStatusHasALineForEachSandbox(t *testing.T) {
	s := ops.Status{Sandboxes: []ops.Sandbox{describeSandbox(sandbox.Snapshot{
		ID: "0123456789abcdef", State: "warm", Created: time.Now(), Posture: posture(), Degraded: []string{"x"},
	})}}
	var b bytes.Buffer
	if err := printStatus(&b, s, false); err != nil {
		t.Fatal(err)
	}
	want := "01234567  warm  0s old  uid 65534, capabilities none, seccomp filter x2, 512 MiB, 128 pids, degraded"
	if !strings.Contains(b.String(), want) {
		t.Errorf("got\n%s\nwant a line with %q", b.String(), want)
	}
}
