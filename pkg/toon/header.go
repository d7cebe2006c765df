package toon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A header is what a line says of an array that begins there.
type header struct {
	key       string
	keyed     bool // it has a key
	quoted    bool // and that is quoted
	count     uint64
	delimiter byte
	columns   []member // of a table, with their names alone; nil for lists
	rest      string   // what stands after the colon
}

// parseHeader reads a line that may be a header. ok is false if it is none, and
// an error says why it is nearly one.
func parseHeader(s string) (h header, ok bool, err error) {
	open, ok := h.takeKey(s)
	if !ok {
		return h, false, nil
	}
	end := strings.IndexByte(s[open:], ']')
	colon := find(s, ":", open)
	if end < 0 || colon < 0 || colon < open+end {
		return h, false, nil
	}
	end += open
	if err := h.takeCount(s[open+1 : end]); err != nil {
		return h, false, err
	}
	next := end + 1
	if s[next] == '{' {
		shut := find(s, "}", next)
		if shut < 0 {
			return h, false, errors.New("the names of a table's columns have no end")
		}
		if err := h.takeColumns(s[next+1 : shut]); err != nil {
			return h, false, err
		}
		next = shut + 1
	}
	if !strings.HasPrefix(s[next:], ":") {
		return h, false, fmt.Errorf("%.40q stands between an array's head and its colon", s[next:])
	}
	h.rest = s[next+1:]
	return h, true, nil
}

// takeKey reads what stands before the bracket, and returns where that opens. ok
// is false if the line has none there.
func (h *header) takeKey(s string) (open int, ok bool) {
	if strings.HasPrefix(s, `"`) {
		end := closing(s)
		if end < 0 || !strings.HasPrefix(s[end+1:], "[") {
			return 0, false
		}
		key, err := unquote(s[:end+1])
		h.key, h.keyed, h.quoted = key, true, true
		return end + 1, err == nil
	}
	open = find(s, "[:", 0)
	if open < 0 || s[open] == ':' {
		return 0, false
	}
	h.key, h.keyed = trim(s[:open]), open > 0
	return open, true
}

// takeCount reads what stands in the brackets.
func (h *header) takeCount(s string) error {
	h.delimiter = ','
	digits := s
	if n := len(s) - 1; n >= 0 && (s[n] == '\t' || s[n] == '|') {
		digits, h.delimiter = s[:n], s[n]
	}
	count, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || countDigits(digits) != len(digits) || len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("[%.40s] is no length of an array", s)
	}
	h.count = count
	return nil
}

// takeColumns reads what stands in the braces.
func (h *header) takeColumns(s string) error {
	others := strings.ReplaceAll(",|\t", string(rune(h.delimiter)), "")
	if find(s, others, 0) >= 0 {
		return fmt.Errorf("the names of columns are not parted by %q, as the length says", h.delimiter)
	}
	h.columns = []member{}
	for _, token := range splitTokens(s, h.delimiter) {
		m := member{key: token, quoted: strings.HasPrefix(token, `"`)}
		if m.quoted {
			key, err := unquote(token)
			if err != nil {
				return err
			}
			m.key = key
		}
		h.columns = append(h.columns, m)
	}
	return nil
}

// parseField reads a line with a key and what stands after its colon.
func parseField(s string) (m member, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		end := closing(s)
		if end < 0 {
			return m, "", errors.New("a key has no closing quote")
		}
		if !strings.HasPrefix(s[end+1:], ":") {
			return m, "", errors.New("no colon follows a key")
		}
		m.quoted = true
		m.key, err = unquote(s[:end+1])
		return m, s[end+2:], err
	}
	key, rest, ok := strings.Cut(s, ":")
	if !ok {
		return m, "", errors.New("no colon follows a key")
	}
	m.key = trim(key)
	return m, rest, nil
}
