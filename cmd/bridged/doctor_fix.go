package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/bridged/bridged/images"
	"github.com/bridged/bridged/pkg/bridge"
	"github.com/bridged/bridged/pkg/runtime"
	"github.com/bridged/bridged/pkg/systemd"
)

// A repair is what --fix does about a finding.
type repair struct {
	deed string
	path string // or a unit, an image, a container
	mode fs.FileMode
}

// What repairs do.
const (
	repairMode      = "mode"      // give path its mode
	repairSocket    = "socket"    // remove a socket that nobody listens on
	repairUnit      = "unit"      // have the user's systemd enable and start it
	repairImage     = "image"     // build or pull it, if --image is given
	repairContainer = "container" // remove it
)

const (
	// repairTime bounds one repair, and imageTime the fetching of an image.
	repairTime = time.Minute
	imageTime  = time.Hour
)

// mend does what is safe about the findings, one by one. A repair that fails
// keeps none from the others.
func (p *patient) mend(ctx context.Context, r doctorReport) []repairReport {
	var list []repairReport
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.repair.deed == "" || f.repair.deed == repairImage && !p.flags.image {
				continue
			}
			one := repairReport{Code: f.Code, Subject: f.Subject}
			var err error
			if one.Done, err = p.repair(ctx, f.repair); err != nil {
				one.Done, one.Error = "", err.Error()
			}
			list = append(list, one)
		}
	}
	return list
}

// repair does one thing and says what.
func (p *patient) repair(ctx context.Context, r repair) (done string, err error) {
	limit := repairTime
	if r.deed == repairImage {
		limit = imageTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch r.deed {
	case repairMode:
		return fmt.Sprintf("gave %s the mode %04o", r.path, r.mode), os.Chmod(r.path, r.mode)
	case repairSocket:
		return "removed the socket " + r.path, removeSocket(r.path)
	case repairUnit:
		return "had systemd enable and start " + r.path, startUnit(ctx, p.getenv("XDG_RUNTIME_DIR"), r.path)
	}
	e := p.engine().engine
	if e == nil {
		return "", runtime.ErrNoEngine
	}
	if r.deed == repairContainer {
		return "removed the container " + r.path, e.Remove(ctx, runtime.ID(r.path))
	}
	if strings.HasPrefix(r.path, "localhost/") {
		return "built the image " + r.path, e.Build(ctx, r.path, images.ContextTar(), func(string, int64, int64) {})
	}
	return "pulled the image " + r.path, e.Pull(ctx, r.path, "", func(string, int64, int64) {})
}

// removeSocket removes a socket under the lock of those who would listen on it:
// one that a daemon has taken meanwhile stays.
func removeSocket(path string) error {
	ln, err := bridge.Listen(path)
	if err != nil {
		return err
	}
	return ln.Close()
}

func startUnit(ctx context.Context, runtimeDir, unit string) error {
	m, err := systemd.User(ctx, runtimeDir)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Enable(ctx, unit)
}
