package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxLine bounds what is read as one line, in bytes.
const maxLine = 16 << 20

// errStop ends a scan early.
var errStop = errors.New("stop")

// errTorn says that a file ends with half a line.
var errTorn = errors.New("the file ends in the middle of a line: it was cut or edited, or the daemon was killed as it wrote")

// scanFile gives each whole line of a file, from an offset on, to each, which
// may keep it, with the offset behind it. The error is each's, but for errStop,
// or errTorn, or one of reading.
func scanFile(path string, from int64, each func(raw []byte, next int64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		raw, err := readLine(r)
		if errors.Is(err, io.EOF) && len(raw) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w", orTorn(err))
		}
		from += int64(len(raw)) + 1
		if err := each(raw, from); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
}

func orTorn(err error) error {
	if errors.Is(err, io.EOF) {
		return errTorn
	}
	return err
}

// readLine returns a line of its own memory, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return bytes.TrimSuffix(line, []byte("\n")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
	}
}

// A Place is a position in the log: behind the last line that was read.
type Place struct {
	number int
	offset int64
}

// Read gives the lines of the log in dir to each, the oldest first, as they
// stand, with what they say. Lines that can't be read are given without that: see
// [Verify]. It returns the place of its end.
func Read(dir string, each func(l Line, raw []byte) error) (Place, error) {
	list, err := numbers(dir)
	if err != nil {
		return Place{}, err
	}
	var p Place
	for _, n := range list {
		p = Place{number: n}
		if err := p.read(dir, each); err != nil {
			return p, err
		}
	}
	return p, nil
}

// read gives the whole lines of p's file, and moves p behind them.
func (p *Place) read(dir string, each func(l Line, raw []byte) error) error {
	path := filepath.Join(dir, fileName(p.number))
	err := scanFile(path, p.offset, func(raw []byte, next int64) error {
		p.offset = next
		l, err := parse(raw)
		if err != nil && !errors.Is(err, errHash) {
			l = Line{}
		}
		return each(l, raw)
	})
	if errors.Is(err, errTorn) || errors.Is(err, fs.ErrNotExist) {
		return nil // it is being written; or it was removed as the oldest
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// followPause is how long a line stays unread where the system tells of no
// changes, as on some network file systems.
const followPause = time.Second

// Follow gives the lines behind a place to each as they are written, until ctx
// ends, whose error it returns then.
func Follow(ctx context.Context, dir string, p Place, each func(l Line, raw []byte) error) error {
	watch, err := fsnotify.NewWatcher()
	if err == nil {
		defer watch.Close() //nolint:errcheck // it only watched
		err = watch.Add(dir)
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", dir, err)
	}
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for {
		if err := p.advance(dir, each); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-watch.Events:
		case err := <-watch.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) { // then there is much to read
				return fmt.Errorf("watching %s: %w", dir, err)
			}
		case <-tick.C:
		}
	}
}

// advance reads on, through all files that there are by now.
func (p *Place) advance(dir string, each func(l Line, raw []byte) error) error {
	list, err := numbers(dir)
	if err != nil {
		return err
	}
	if p.number > 0 {
		// A file gets no more lines once there is a later one, and the list is
		// older than what is read now.
		if err := p.read(dir, each); err != nil {
			return err
		}
	}
	for _, n := range list {
		if n <= p.number {
			continue
		}
		*p = Place{number: n}
		if err := p.read(dir, each); err != nil {
			return err
		}
	}
	return nil
}
