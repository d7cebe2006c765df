//go:build integration

package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bridged/bridged/pkg/runtime"
)

// Freeze stops the engine's service from running: it hangs, and with it all the
// streams that it passes on. Its containers run on.
func (r *Running) Freeze(ctx context.Context) error {
	return signal(ctx, -r.cmd.Process.Pid, syscall.SIGSTOP)
}

// Thaw lets a frozen service go on.
func (r *Running) Thaw(ctx context.Context) error {
	return signal(ctx, -r.cmd.Process.Pid, syscall.SIGCONT)
}

// Pause pauses a container. An engine that can do so may still refuse it a few
// times: runc gives up when processes are slow to freeze.
func (r *Running) Pause(ctx context.Context, id runtime.ID) error {
	err := r.Engine.Pause(ctx, id)
	for range 10 {
		if err == nil || r.Name == Rootless { // which can't, on cgroups v1
			break
		}
		err = r.Engine.Pause(ctx, id)
	}
	return err
}

// End asks the engine's service to end, as an upgrade does, and waits until it
// has. Docker ends its containers with it.
func (r *Running) End(ctx context.Context) error { return r.end(ctx) }

// A SmallDisk is what an engine keeps its containers' settings on.
type SmallDisk struct{ dir, junk string }

// SmallDisk gives the engine a small disk until the test ends. No container may
// be there.
func (r *Running) SmallDisk(t testing.TB) *SmallDisk {
	t.Helper()
	dir := filepath.Join(r.layout.hostStorage(), "root", "overlay-containers")
	if r.Kind != runtime.Podman {
		dir = filepath.Join(r.layout.hostStorage(), "root", "containers")
	}
	if err := asRoot(t.Context(), "mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "bridged-test", dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background() // the test's has ended
		if err := errors.Join(r.removeContainers(ctx), umount(ctx, dir)); err != nil {
			t.Error(err)
		}
	})
	return &SmallDisk{dir, filepath.Join(dir, "junk")}
}

// Fill leaves no room on the disk.
func (d *SmallDisk) Fill(ctx context.Context) error {
	// It ends when there is no room, and says so.
	_ = asRoot(ctx, "dd", "if=/dev/zero", "of="+d.junk, "bs=4k", "status=none")
	return asRoot(ctx, "test", "-s", d.junk)
}

// Free makes room on it again.
func (d *SmallDisk) Free(ctx context.Context) error { return asRoot(ctx, "rm", d.junk) }

// Do sends a request of Docker's API, which every engine has, for what our own
// contract leaves out. Path is without the version.
func (r *Running) Do(ctx context.Context, method, path string) error {
	socket := strings.TrimPrefix(r.Endpoint, "unix://")
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://engine/v1.41"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return nil
}

// Tag gives the engine's image another name, in the repository
// localhost/bridged-test.
func (r *Running) Tag(ctx context.Context, tag string) (ref string, err error) {
	const repository = "localhost/bridged-test"
	return repository + ":" + tag, r.Do(ctx, http.MethodPost, "/images/"+r.Image+"/tag?repo="+repository+"&tag="+tag)
}

// Untag takes a name from an image.
func (r *Running) Untag(ctx context.Context, ref string) error {
	return r.Do(ctx, http.MethodDelete, "/images/"+ref)
}

// Disk mounts a small disk of this machine's memory at a folder of the caller's,
// until the test ends.
func Disk(t testing.TB, dir string, bytes int64) {
	t.Helper()
	options := fmt.Sprintf("size=%d,mode=0700,uid=%d,gid=%d", bytes, os.Geteuid(), os.Getegid())
	if err := asRoot(t.Context(), "mount", "-t", "tmpfs", "-o", options, "bridged-test", dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := umount(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
}

// umount ends a mount. Who has files on it may be about to end: Podman cleans up
// after a container in a process of its own.
func umount(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var last error
	err := until(ctx, "the mount is busy", func() (bool, error) {
		last = asRoot(ctx, "umount", dir)
		if last != nil && strings.Contains(last.Error(), "busy") {
			return false, nil
		}
		return true, last
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.Join(err, last)
	}
	return err
}
