package toon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quote writes a string between quotes.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// encodeString writes a string as a value among others that the delimiter parts.
func encodeString(s string, delimiter byte) string {
	if bare(s, delimiter) {
		return s
	}
	return quote(s)
}

// bare reports whether a string can do without quotes.
func bare(s string, delimiter byte) bool {
	switch s {
	case "", "true", "false", "null":
		return false
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if s[0] == '-' || space(first) || space(last) {
		return false
	}
	if looks, _ := numeric(s); looks {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c == delimiter:
			return false
		case strings.IndexByte(`:"\[]{}`, c) >= 0:
			return false
		}
	}
	return true
}

// space reports whether some decoder would trim r.
func space(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }

// encodeKey writes an object's key or the name of a column.
func encodeKey(key string) string {
	if key == "" || '0' <= key[0] && key[0] <= '9' || key[0] == '.' {
		return quote(key)
	}
	for i := range len(key) {
		if c := key[i]; c != '.' && !wordly(c) {
			return quote(key)
		}
	}
	return key
}

// segment reports whether key can be a part of a path with dots.
func segment(key string) bool {
	if key == "" || '0' <= key[0] && key[0] <= '9' {
		return false
	}
	for i := range len(key) {
		if !wordly(key[i]) {
			return false
		}
	}
	return true
}

func wordly(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// trim takes off what may stand around a token.
func trim(s string) string { return strings.Trim(s, " \t\r") }

// find returns where the first of the bytes is that is in no quotes, from
// start on; -1 if there is none.
func find(s, bytes string, start int) int {
	quoted := false
	for i := start; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(bytes, c) >= 0:
			return i
		}
	}
	return -1
}

// splitTokens parts s at a delimiter that is in no quotes.
func splitTokens(s string, delimiter byte) []string {
	var tokens []string
	for {
		at := find(s, string(rune(delimiter)), 0)
		if at < 0 {
			return append(tokens, trim(s))
		}
		tokens = append(tokens, trim(s[:at]))
		s = s[at+1:]
	}
}

// closing returns where the quotes end that s begins with; -1 if they do not.
func closing(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// decodeToken reads a value that stands in one line.
func decodeToken(token string) (value, error) {
	token = trim(token)
	switch {
	case strings.HasPrefix(token, `"`):
		s, err := unquote(token)
		return value{kind: text, text: s}, err
	case token == "null" || token == "true" || token == "false":
		return value{kind: literal, text: token}, nil
	}
	if _, is := numeric(token); is {
		if form, ok := canonical(token); ok {
			return value{kind: number, text: form}, nil
		}
	}
	return value{kind: text, text: token}, nil
}

// unquote reads what s has between its quotes, which must be all of it.
func unquote(s string) (string, error) {
	switch end := closing(s); {
	case end < 0:
		return "", errors.New("a string has no closing quote")
	case end != len(s)-1:
		return "", fmt.Errorf("%.40q follows a closing quote", s[end+1:])
	}
	return unescape(s[1 : len(s)-1])
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // a quoted string does not end in the middle of an escape
		switch c := s[i]; c {
		case '"', '\\':
			b.WriteByte(c)
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r, err := unit(s[i+1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += 4
		default:
			return "", fmt.Errorf(`there is no escape \%c`, c)
		}
	}
	return b.String(), nil
}

// unit reads four hexadecimal digits.
func unit(s string) (rune, error) {
	if len(s) < 4 {
		return 0, errors.New(`\u needs four hexadecimal digits`)
	}
	u, err := strconv.ParseUint(s[:4], 16, 16)
	switch {
	case err != nil:
		return 0, errors.New(`\u needs four hexadecimal digits`)
	case 0xD800 <= u && u < 0xE000:
		return 0, fmt.Errorf(`\u%s is half a character`, s[:4])
	}
	return rune(u), nil
}
