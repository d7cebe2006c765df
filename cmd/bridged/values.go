package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bridged/bridged/pkg/sandbox"
)

// A byteSize is a number of bytes as people write it: "512m", "1GiB", "1048576".
type byteSize int64

// String returns the shortest exact form.
func (b byteSize) String() string {
	for _, u := range []struct {
		size byteSize
		name string
	}{{1 << 30, "g"}, {1 << 20, "m"}, {1 << 10, "k"}} {
		if b != 0 && b%u.size == 0 {
			return fmt.Sprintf("%d%s", b/u.size, u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Set parses s, as Docker and Podman do: units are powers of 1024.
func (b *byteSize) Set(s string) error {
	text := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b"), "i")
	unit := int64(1)
	if n := len(text); n > 0 {
		if i := strings.IndexByte("kmg", text[n-1]); i >= 0 {
			unit <<= 10 * (i + 1)
			text = text[:n-1]
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v <= 0 || v > (1<<50)/unit {
		return fmt.Errorf("%q is no size: write for example 512m or 2g", s)
	}
	*b = byteSize(v * unit)
	return nil
}

// Type names the kind of value in help texts.
func (*byteSize) Type() string { return "size" }

// A share is a part of a machine's memory: "75%", or a size. Its zero value is
// "never", no bound.
type share struct {
	percent int64
	size    byteSize
}

func (s share) String() string {
	switch {
	case s.percent > 0:
		return strconv.FormatInt(s.percent, 10) + "%"
	case s.size > 0:
		return s.size.String()
	}
	return "never"
}

// Set parses text.
func (s *share) Set(text string) error {
	if text == "never" || text == "0" {
		*s = share{}
		return nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		v, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || v < 1 || v > 100 {
			return fmt.Errorf("%q is no share: write for example 75%%, 8g or never", text)
		}
		*s = share{percent: v}
		return nil
	}
	var size byteSize
	if err := size.Set(text); err != nil {
		return fmt.Errorf("%w, a share such as 75%%, or never", err)
	}
	*s = share{size: size}
	return nil
}

// Type names the kind of value in help texts.
func (*share) Type() string { return "share" }

// of returns the bytes that s is of a machine with so much memory; 0 means no
// bound, as when the machine's memory is unknown.
func (s share) of(total int64) int64 {
	if s.percent > 0 {
		return total / 100 * s.percent
	}
	return int64(s.size)
}

// A duration is a positive span of time: "30s", "10m", or a number of seconds.
type duration time.Duration

func (d duration) String() string { return sandbox.Brief(time.Duration(d)) }

// Set parses s; a bare number is seconds.
func (d *duration) Set(s string) error {
	v, err := time.ParseDuration(s)
	if sec, nerr := strconv.ParseFloat(s, 64); nerr == nil && sec >= 0 && sec < 1e9 {
		v, err = time.Duration(sec*float64(time.Second)), nil
	}
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is no span of time: write for example 30s or 10m", s)
	}
	*d = duration(v)
	return nil
}

// Type names the kind of value in help texts.
func (*duration) Type() string { return "duration" }

// A wordList is a list of words: an array in TOML, comma-separated elsewhere.
type wordList []string

func (w wordList) String() string { return strings.Join(w, ",") }

// Set replaces the list; an empty text is an empty list.
func (w *wordList) Set(s string) error {
	*w = wordList{}
	for _, word := range strings.Split(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			*w = append(*w, word)
		}
	}
	return nil
}

// Type names the kind of value in help texts.
func (*wordList) Type() string { return "list" }

// A count is a whole number within bounds that its key states.
type count int64

func (c count) String() string { return strconv.FormatInt(int64(c), 10) }

// Set parses s.
func (c *count) Set(s string) error {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < 0 || v > 1_000_000 {
		return fmt.Errorf("%q is no number from 0 to 1000000", s)
	}
	*c = count(v)
	return nil
}

// Type names the kind of value in help texts.
func (*count) Type() string { return "number" }

// A cores is a number of processor cores, such as 0.5.
type cores float64

func (c cores) String() string { return strconv.FormatFloat(float64(c), 'g', -1, 64) }

// Set parses s.
func (c *cores) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0.01 && v <= 1024) {
		return fmt.Errorf("%q is no number of cores: write for example 1 or 0.5", s)
	}
	*c = cores(v)
	return nil
}

// Type names the kind of value in help texts.
func (*cores) Type() string { return "number" }

// A word is a plain text.
type word string

func (w word) String() string { return string(w) }

// Set takes s as it is.
func (w *word) Set(s string) error {
	*w = word(s)
	return nil
}

// Type names the kind of value in help texts.
func (*word) Type() string { return "text" }

// A toggle is on or off: true or false.
type toggle bool

func (t toggle) String() string { return strconv.FormatBool(bool(t)) }

// Set parses s.
func (t *toggle) Set(s string) error {
	switch s {
	case "true", "1", "on", "yes":
		*t = true
	case "false", "0", "off", "no":
		*t = false
	default:
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return nil
}

// Type names the kind of value in help texts.
func (*toggle) Type() string { return "bool" }

// A delay is a span of time or "always", which is its zero value and leaves no
// time at all.
type delay time.Duration

func (d delay) String() string {
	if d == 0 {
		return "always"
	}
	return duration(d).String()
}

// Set parses s; a bare number is seconds.
func (d *delay) Set(s string) error {
	if s == "always" || s == "0" {
		*d = 0
		return nil
	}
	if err := (*duration)(d).Set(s); err != nil {
		return fmt.Errorf("%w, or always", err)
	}
	return nil
}

// Type names the kind of value in help texts.
func (*delay) Type() string { return "duration" }
