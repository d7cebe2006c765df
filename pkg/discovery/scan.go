package discovery

import (
	"encoding/json"
	"fmt"
)

const (
	// maxDepth bounds nesting, so that a hostile file cannot exhaust the
	// stack of the recursive decoder behind the scanner.
	maxDepth = 200

	// maxMembers bounds the members of one object.
	maxMembers = 100_000
)

// A syntaxError says what is wrong with a text, and where.
type syntaxError struct {
	at  int // byte offset
	msg string
}

func (e *syntaxError) Error() string { return e.msg }

// A scanner finds the members of objects in JSON with comments and trailing
// commas, without decoding the values. That is what keeps a large state file
// cheap, and one broken entry from hiding its neighbours.
type scanner struct{ src []byte }

// A member is one key of an object and where its value lies.
type member struct {
	key   string
	keyAt int
	at    int // first byte of the value
	end   int // first byte after the value

	val  *node // in a document that was decoded as a whole, instead of offsets
	line int   // of the key, then
}

// space returns the offset of the first byte from i on that is neither
// whitespace nor part of a comment.
func (s scanner) space(i int) (int, error) {
	for i < len(s.src) {
		switch s.src[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '/':
			end, err := s.comment(i)
			if err != nil {
				return i, err
			}
			i = end
		default:
			return i, nil
		}
	}
	return i, nil
}

func (s scanner) comment(i int) (int, error) {
	if i+1 >= len(s.src) || s.src[i+1] != '/' && s.src[i+1] != '*' {
		return i, &syntaxError{i, "unexpected '/'"}
	}
	if s.src[i+1] == '/' {
		for i < len(s.src) && s.src[i] != '\n' {
			i++
		}
		return i, nil
	}
	for j := i + 2; j+1 < len(s.src); j++ {
		if s.src[j] == '*' && s.src[j+1] == '/' {
			return j + 2, nil
		}
	}
	return i, &syntaxError{i, "the comment has no end"}
}

// text returns the end of the string that starts at i.
func (s scanner) text(i int) (int, error) {
	for j := i + 1; j < len(s.src); j++ {
		switch s.src[j] {
		case '\\':
			j++
		case '"':
			return j + 1, nil
		}
	}
	return i, &syntaxError{i, "the string has no end"}
}

// value returns the end of the value that starts at i. Brackets must match;
// what is inside is not checked further.
func (s scanner) value(i int) (int, error) {
	if i >= len(s.src) {
		return i, &syntaxError{i, "the file ends where a value should be"}
	}
	switch s.src[i] {
	case '"':
		return s.text(i)
	case '{', '[':
		return s.nested(i)
	}
	end := i
	for end < len(s.src) && !isDelimiter(s.src[end]) {
		end++
	}
	if end == i {
		return i, &syntaxError{i, fmt.Sprintf("unexpected %q where a value should be", s.src[i])}
	}
	return end, nil
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '/', ',', ':', '"', '{', '}', '[', ']':
		return true
	}
	return false
}

// nested returns the end of the object or array that starts at i.
func (s scanner) nested(i int) (int, error) {
	var open []byte
	for j := i; j < len(s.src); {
		end := j + 1
		var err error
		switch c := s.src[j]; c {
		case '"':
			end, err = s.text(j)
		case '/':
			end, err = s.comment(j)
		case '{', '[':
			open = append(open, c+2) // both close two code points later
			if len(open) > maxDepth {
				err = &syntaxError{j, fmt.Sprintf("nested more than %d deep", maxDepth)}
			}
		case '}', ']':
			if open[len(open)-1] != c {
				return j, &syntaxError{j, fmt.Sprintf("unexpected %q", c)}
			}
			open = open[:len(open)-1]
			if len(open) == 0 {
				return end, nil
			}
		}
		if err != nil {
			return j, err
		}
		j = end
	}
	return i, &syntaxError{len(s.src), "the file ends in the middle of a value"}
}

// members lists the members of the object that starts at i, in order and with
// duplicates, and the object's end.
func (s scanner) members(i int) (list []member, end int, err error) {
	i++ // the opening brace
	for {
		if i, err = s.space(i); err != nil {
			return nil, i, err
		}
		if i < len(s.src) && s.src[i] == '}' {
			return list, i + 1, nil
		}
		m, err := s.member(i)
		if err != nil {
			return nil, i, err
		}
		if list = append(list, m); len(list) > maxMembers {
			return nil, i, &syntaxError{i, fmt.Sprintf("more than %d members", maxMembers)}
		}
		if i, err = s.space(m.end); err != nil {
			return nil, i, err
		}
		if i >= len(s.src) {
			return nil, i, &syntaxError{i, "the file ends in the middle of an object"}
		}
		if s.src[i] == ',' {
			i++
		} else if s.src[i] != '}' {
			return nil, i, &syntaxError{i, fmt.Sprintf("unexpected %q after a member; a comma or brace is missing", s.src[i])}
		}
	}
}

func (s scanner) member(i int) (m member, err error) {
	m.keyAt = i
	if i >= len(s.src) {
		return m, &syntaxError{i, "the file ends in the middle of an object"}
	}
	if s.src[i] != '"' {
		return m, &syntaxError{i, fmt.Sprintf("unexpected %q where a quoted key should be", s.src[i])}
	}
	end, err := s.text(i)
	if err != nil {
		return m, err
	}
	if json.Unmarshal(s.src[i:end], &m.key) != nil {
		return m, &syntaxError{i, "the key is not a valid string"}
	}
	if i, err = s.space(end); err != nil {
		return m, err
	}
	if i >= len(s.src) || s.src[i] != ':' {
		return m, &syntaxError{min(i, len(s.src)), "a colon is missing after the key"}
	}
	if m.at, err = s.space(i + 1); err != nil {
		return m, err
	}
	m.end, err = s.value(m.at)
	return m, err
}
