package commandline

import (
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/cli/opts"

	"github.com/bridged/bridged/pkg/runtime"
)

// defaultTmpfs is the mode of a folder in memory.
const defaultTmpfs = 0o1777

func (f *flags) addMounts(s *runtime.ServerSpec, o Origin) error {
	for _, text := range f.volumes {
		m, err := Volume(strings.TrimLeft(text, " \t"), o.Dir)
		if err != nil {
			return fmt.Errorf("-v/--volume %w", err)
		}
		s.Mounts = append(s.Mounts, m)
	}
	for _, text := range f.mounts {
		if err := addMount(s, text, o.Dir); err != nil {
			return fmt.Errorf("--mount %q: %w", text, err)
		}
	}
	return nil
}

// Volume reads SOURCE:TARGET, SOURCE:TARGET:OPTIONS or TARGET, as -v takes it.
// Relative sources that begin with a dot are taken from dir.
func Volume(text, dir string) (runtime.ServerMount, error) {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return runtime.ServerMount{}, fmt.Errorf("%q: write SOURCE:TARGET or SOURCE:TARGET:ro", text)
	}
	m := runtime.ServerMount{Volume: true, Target: parts[len(parts)-1]}
	if len(parts) > 1 {
		m.Source, m.Target = parts[0], parts[1]
		if err := place(&m, dir); err != nil {
			return m, fmt.Errorf("%q: %w", text, err)
		}
	}
	if err := checkTarget(m.Target); err != nil {
		return m, fmt.Errorf("%q: %w", text, err)
	}
	if len(parts) == 3 {
		for _, option := range strings.Split(parts[2], ",") {
			if err := setOption(&m, option); err != nil {
				return m, fmt.Errorf("%q: %w", text, err)
			}
		}
	}
	return m, nil
}

// place tells a path from the name of a volume.
func place(m *runtime.ServerMount, dir string) error {
	switch source := m.Source; {
	case filepath.IsAbs(source):
		m.Volume, m.Source = false, filepath.Clean(source)
	case strings.HasPrefix(source, "."):
		m.Volume, m.Source = false, filepath.Join(dir, source)
	case strings.HasPrefix(source, "~") || strings.HasPrefix(source, "$"):
		return fmt.Errorf("source %s: no shell reads it; write the absolute path", source)
	case !namePattern.MatchString(source):
		return fmt.Errorf("source %q is neither an absolute path, nor one that begins with ./, nor the name of a volume", source)
	}
	return nil
}

func checkTarget(target string) error {
	if !strings.HasPrefix(target, "/") || filepath.Clean(target) == "/" {
		return fmt.Errorf("target %q is no absolute path in the container", target)
	}
	return nil
}

// setOption takes the options of -v. What concerns Docker Desktop's caching is
// left out.
func setOption(m *runtime.ServerMount, option string) error {
	switch option {
	case "ro":
		m.ReadOnly = true
	case "z", "Z":
		m.Relabel = option
	case "rw", "", "cached", "delegated", "consistent", "rprivate", "private":
	default:
		return fmt.Errorf("option %s cannot be honoured: there are ro, rw, z and Z", option)
	}
	return nil
}

// addMount takes TYPE, SOURCE and TARGET as --mount has them.
func addMount(s *runtime.ServerSpec, text, dir string) error {
	text, err := absolute(strings.TrimSpace(text), dir)
	if err != nil {
		return err
	}
	var parsed opts.MountOpt
	if err := parsed.Set(text); err != nil {
		return err
	}
	m := parsed.Value()[0]
	if m.BindOptions != nil || m.VolumeOptions != nil || m.ImageOptions != nil || m.ClusterOptions != nil {
		return errors.New("of its options only type, source, target, readonly, tmpfs-size and tmpfs-mode can be honoured")
	}
	if err := checkTarget(m.Target); err != nil {
		return err
	}
	switch m.Type {
	case "bind", "volume":
		out := runtime.ServerMount{Volume: m.Type == "volume", Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
		if out.Volume && out.Source != "" && !namePattern.MatchString(out.Source) {
			return fmt.Errorf("source %q is no name of a volume", out.Source)
		}
		if !out.Volume && !filepath.IsAbs(out.Source) {
			return fmt.Errorf("source %q is no absolute path", out.Source)
		}
		s.Mounts = append(s.Mounts, out)
	case "tmpfs":
		t := runtime.Tmpfs{Target: m.Target, Mode: defaultTmpfs}
		if m.TmpfsOptions != nil {
			t.SizeBytes = m.TmpfsOptions.SizeBytes
			if m.TmpfsOptions.Mode != 0 {
				t.Mode = uint32(m.TmpfsOptions.Mode)
			}
		}
		s.Tmpfs = append(s.Tmpfs, t)
	default:
		return fmt.Errorf("type %s cannot be honoured: there are bind, volume and tmpfs", m.Type)
	}
	return nil
}

// absolute makes a source that begins with a dot absolute. The library would
// take it from our own folder. It also warns about an option on its own logger.
func absolute(text, dir string) (string, error) {
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil {
		return "", errors.New("it is no list of KEY=VALUE with commas between")
	}
	for i, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch key = strings.ToLower(key); {
		case (key == "source" || key == "src") && strings.HasPrefix(value, "."):
			fields[i] = key + "=" + filepath.Join(dir, value)
		case key == "bind-nonrecursive":
			return "", errors.New("bind-nonrecursive cannot be honoured")
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(fields) // to memory
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// addTmpfs takes TARGET or TARGET:OPTIONS.
func (f *flags) addTmpfs(s *runtime.ServerSpec, _ Origin) error {
	for _, text := range f.tmpfs {
		target, options, _ := strings.Cut(text, ":")
		t := runtime.Tmpfs{Target: target, Mode: defaultTmpfs}
		if err := checkTarget(target); err != nil {
			return fmt.Errorf("--tmpfs %w", err)
		}
		for _, option := range strings.Split(options, ",") {
			if err := setTmpfs(&t, option); err != nil {
				return fmt.Errorf("--tmpfs %s: %w", target, err)
			}
		}
		s.Tmpfs = append(s.Tmpfs, t)
	}
	return nil
}

func setTmpfs(t *runtime.Tmpfs, option string) error {
	key, value, _ := strings.Cut(option, "=")
	switch key {
	case "size":
		n, err := bytesOf(value)
		t.SizeBytes = n
		return err
	case "mode":
		mode, err := strconv.ParseUint(value, 8, 12)
		if err != nil {
			return fmt.Errorf("mode %q is no octal number", value)
		}
		t.Mode = uint32(mode)
	case "exec":
		t.Exec = true
	case "noexec":
		t.Exec = false
	case "", "rw", "nosuid", "nodev":
	default:
		return fmt.Errorf("option %s cannot be honoured: there are size, mode, exec and noexec", key)
	}
	return nil
}
