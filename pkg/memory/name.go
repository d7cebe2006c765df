package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// maxKey bounds a key, in bytes.
	maxKey = 4 << 10

	// maxStem bounds a file's name without its suffix, in bytes: what is put
	// around it for a file that is being written must fit too.
	maxStem = 150

	suffix = ".json"
)

// checkKey refuses what is no key.
func checkKey(key string) error {
	switch {
	case key == "":
		return errorf(CodeInvalid, "A key must not be empty: give the memory a name, such as 'plan'.")
	case len(key) > maxKey:
		return errorf(CodeInvalid, "The key has %d bytes, and %d is the limit: give a short name, and put the rest into the value.", len(key), maxKey)
	case !utf8.ValidString(key):
		return errorf(CodeInvalid, "The key is not valid Unicode text.")
	}
	return nil
}

// fileName is the file of a key. Small letters, digits, _, - and . stand for
// themselves, capital ones too, and a mark behind ~ says which are capital: file
// systems that do not tell them apart hold both. All else is escaped as %XX, so
// that no name has a form that some system changes, hides or refuses. A long one
// is cut, and ends in the key's digest; its key is in the file alone.
func fileName(key string) string {
	stem := escape(key)
	if mask := capitals(stem); mask != "" {
		stem += "~" + mask
	}
	if len(stem) > maxStem {
		return digestName(key)
	}
	return stem + suffix
}

// digestName is the file of a key that is too long for a name, or whose own
// name is taken.
func digestName(key string) string {
	sum := sha256.Sum256([]byte(key))
	stem := escape(key)
	stem = stem[:min(len(stem), maxStem-34)]
	if i := strings.LastIndexByte(stem, '%'); i >= 0 && i > len(stem)-3 {
		stem = stem[:i]
	}
	return stem + "~h" + hex.EncodeToString(sum[:16]) + suffix
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		switch {
		case isLetter(c), '0' <= c && c <= '9', c == '_', i > 0 && (c == '-' || c == '.'):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	stem := b.String()
	if isReserved(stem) {
		stem = fmt.Sprintf("%%%02X%s", stem[0], stem[1:])
	}
	return stem
}

// isReserved reports whether Windows takes a name for a device.
func isReserved(stem string) bool {
	stem, _, _ = strings.Cut(strings.ToLower(stem), ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	port, ok := strings.CutPrefix(stem, "com")
	if !ok {
		port, ok = strings.CutPrefix(stem, "lpt")
	}
	return ok && len(port) == 1 && '0' <= port[0] && port[0] <= '9'
}

// capitals says which of an escaped key's letters are capital: a bit for each
// letter, the first one the highest, in hexadecimal digits; "" if none is.
func capitals(stem string) string {
	var digits []byte
	n := 0
	eachLetter(stem, func(i int) {
		if n%4 == 0 {
			digits = append(digits, 0)
		}
		if stem[i] < 'a' {
			digits[n/4] |= 8 >> (n % 4)
		}
		n++
	})
	for i := range digits {
		digits[i] = "0123456789abcdef"[digits[i]]
	}
	return strings.TrimRight(string(digits), "0")
}

// eachLetter calls f for each letter of an escaped key that is no part of an
// escape.
func eachLetter(stem string, f func(i int)) {
	for i := 0; i < len(stem); i++ {
		if stem[i] == '%' {
			i += 2
		} else if isLetter(stem[i]) {
			f(i)
		}
	}
}

// keyOf is the key that a file's name stands for. A name that fileName would not
// give is a person's own, and is itself the key.
func keyOf(name string) string {
	stem := strings.TrimSuffix(name, suffix)
	marked := strings.Contains(stem, "~") || capitals(stem) == "" // capitals without their mark are a person's
	if key, ok := unescape(stem); ok && marked && strings.EqualFold(fileName(key), name) {
		return key
	}
	return strings.ToValidUTF8(stem, "\ufffd")
}

func unescape(stem string) (string, bool) {
	stem, mask, _ := strings.Cut(stem, "~")
	text := []byte(strings.ToLower(stem))
	n := 0
	eachLetter(stem, func(i int) {
		if n/4 < len(mask) && strings.IndexByte("0123456789abcdef", mask[n/4])&(8>>(n%4)) != 0 {
			text[i] &^= 0x20
		}
		n++
	})
	key := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			key = append(key, text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		c, err := hex.DecodeString(string(text[i+1 : i+3]))
		if err != nil {
			return "", false
		}
		key = append(key, c[0])
		i += 2
	}
	return string(key), len(key) > 0 && utf8.Valid(key)
}

// seedName is the file that mcp-server-code-execution-mode has for a key. Others
// may have the same.
func seedName(key string) string {
	stem := []byte{}
	for _, r := range strings.TrimSpace(key) {
		if r < utf8.RuneSelf && (isLetter(byte(r)) || '0' <= r && r <= '9' || r == '_' || r == '-') {
			stem = append(stem, byte(r))
		} else {
			stem = append(stem, '_')
		}
	}
	return string(stem[:min(len(stem), 100)]) + suffix
}

// candidates are the files that may be a key's, the likeliest first: its own,
// the one it gets when that is taken, that of the seed project, and the one that
// a person would have made.
func candidates(key string) []string {
	names := []string{fileName(key), digestName(key), seedName(key)}
	if len(key) <= maxStem && !strings.ContainsAny(key, "/\\\x00") && key[0] != '.' {
		names = append(names, key+suffix)
	}
	return names
}

// claims reports whether a file that says its key is the file of that key. A
// copy that a person made under another name is not.
func claims(name, key string) bool {
	if checkKey(key) != nil {
		return false
	}
	for _, c := range candidates(key) {
		if strings.EqualFold(c, name) {
			return true
		}
	}
	return false
}
