package memory

import (
	"regexp"
	"slices"
	"strings"
)

// maxSignature bounds what is shown of a function's parameters, in bytes.
const maxSignature = 1000

// A definition is a function or a class at the margin of a Python file.
type definition struct {
	name      string
	signature string // on one line: slugify(text: str, sep: str = '-') -> str
	doc       string // the docstring as it is written, without its quotes
}

var defLine = regexp.MustCompile(`^(?:async[ \t]+)?(def|class)[ \t]+([A-Za-z_][A-Za-z0-9_]*)`)

// sketch finds definitions in a Python file without running it. What it takes a
// broken file for is only shown; what counts is what Python makes of it.
func sketch(text string) []definition {
	var list []definition
	p := pyText{text: text}
	for p.at < len(text) {
		if m := defLine.FindStringSubmatchIndex(p.rest()); m != nil {
			list = append(list, p.define(m))
		}
		p.skipLine()
	}
	return list
}

// A pyText is a Python text and a place in it.
type pyText struct {
	text string
	at   int
}

func (p *pyText) rest() string { return p.text[p.at:] }

// define reads a definition up to its docstring. m are the places of its parts.
func (p *pyText) define(m []int) definition {
	rest := p.rest()
	class := rest[m[2]:m[3]] == "class"
	d := definition{name: rest[m[4]:m[5]]}
	p.at += m[5]
	head := p.until(':')
	if class {
		head = "(...)"
	}
	d.signature = clipped(d.name+head, maxSignature)
	p.at = min(p.at+1, len(p.text)) // past the colon
	d.doc = p.docstring()
	return d
}

// until takes a text up to a character outside of brackets and strings, with
// what is white on one line and without comments.
func (p *pyText) until(end byte) string {
	var b strings.Builder
	depth := 0
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case c == '#':
			p.skip("\n")
			continue
		case c == '"' || c == '\'':
			from := p.at
			p.skipString()
			b.WriteString(p.text[from:p.at])
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		case c == end && depth == 0, c == '\n' && depth == 0:
			return tidy(b.String())
		}
		b.WriteByte(c)
		p.at++
	}
	return tidy(b.String())
}

var (
	white    = regexp.MustCompile(`\s+`)
	openPad  = regexp.MustCompile(`([(\[{]) `)
	closePad = regexp.MustCompile(`,? ([)\]}])`)
)

// tidy puts parameters that are on lines of their own on one.
func tidy(text string) string {
	text = white.ReplaceAllString(strings.TrimSpace(text), " ")
	return closePad.ReplaceAllString(openPad.ReplaceAllString(text, "$1"), "$1")
}

// skip goes on to one of the characters, or to the end.
func (p *pyText) skip(chars string) {
	if n := strings.IndexAny(p.rest(), chars); n >= 0 {
		p.at += n
		return
	}
	p.at = len(p.text)
}

// skipString goes past the string that begins here.
func (p *pyText) skipString() {
	quote := p.rest()[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(p.rest(), triple) {
		quote = triple
	}
	p.at += len(quote)
	for p.at < len(p.text) {
		switch {
		case p.text[p.at] == '\\':
			p.at = min(p.at+2, len(p.text))
		case strings.HasPrefix(p.rest(), quote):
			p.at += len(quote)
			return
		case p.text[p.at] == '\n' && len(quote) == 1:
			return // it is broken
		default:
			p.at++
		}
	}
}

// skipLine goes to the next line that is none of a string or of brackets.
func (p *pyText) skipLine() {
	depth := 0
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case c == '#':
			p.skip("\n")
			continue
		case c == '"' || c == '\'':
			p.skipString()
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth = max(0, depth-1)
		case c == '\\':
			p.at = min(p.at+2, len(p.text))
			continue
		case c == '\n' && (depth == 0 || defLine.MatchString(p.text[p.at+1:])):
			p.at++
			return
		}
		p.at++
	}
}

// docstring reads the string that follows, if there is one, and leaves the place
// before it.
func (p *pyText) docstring() string {
	before := p.at
	defer func() { p.at = before }()
	for p.at < len(p.text) {
		if c := p.text[p.at]; c == '#' {
			p.skip("\n")
		} else if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			p.at++
		} else {
			break
		}
	}
	if m := docStart.FindString(p.rest()); m != "" {
		p.at += len(m) - 1
		from := p.at
		p.skipString()
		return cleanDoc(unquoted(p.text[from:p.at]))
	}
	return ""
}

var docStart = regexp.MustCompile(`^[rRuU]?["']`)

// unquoted leaves a string's quotes out.
func unquoted(text string) string {
	for _, quote := range []string{`"""`, `'''`, `"`, `'`} {
		if inner, ok := strings.CutPrefix(text, quote); ok {
			return strings.TrimSuffix(inner, quote)
		}
	}
	return text
}

// cleanDoc takes the indent that all lines but the first share.
func cleanDoc(doc string) string {
	lines := strings.Split(doc, "\n")
	margin := -1
	for _, line := range lines[1:] {
		if words := strings.TrimLeft(line, " \t"); words != "" {
			if n := len(line) - len(words); margin < 0 || n < margin {
				margin = n
			}
		}
	}
	for i := range lines[1:] {
		lines[i+1] = lines[i+1][min(max(margin, 0), len(lines[i+1])):]
	}
	lines[0] = strings.TrimLeft(lines[0], " \t")
	return strings.TrimSpace(strings.Join(slices.Collect(trimmed(lines)), "\n"))
}

// trimmed yields lines without the white at their ends.
func trimmed(lines []string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, line := range lines {
			if !yield(strings.TrimRight(line, " \t\r")) {
				return
			}
		}
	}
}
