package discovery

import "strings"

// maxSignatureParams bounds the parameters that a signature shows.
const maxSignatureParams = 40

// Signature writes a tool as a terse Python signature under its own alias:
//
//	read_file(path: str, head: int = None) -> {content: str}
//
// A parameter whose name is no identifier is shown by its alias. **kwargs
// stands for arguments that the schema does not name.
func Signature(t Tool) string {
	return SignatureAs(Alias(t.Name), t)
}

// SignatureAs is [Signature] under another name, for a tool whose alias had to
// differ from another's.
func SignatureAs(alias string, t Tool) string {
	var b strings.Builder
	b.WriteString(alias)
	b.WriteByte('(')
	for i, p := range t.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == maxSignatureParams {
			b.WriteString("...")
			break
		}
		b.WriteString(p.Alias)
		b.WriteString(": ")
		b.WriteString(p.Type)
		b.WriteString(p.suffix())
	}
	if t.Loose {
		if len(t.Params) > 0 {
			b.WriteString(", ")
		}
		b.WriteString("**kwargs")
	}
	b.WriteString(") -> ")
	b.WriteString(t.returns(returnWidth))
	return b.String()
}

// suffix shows that a parameter may be left out.
func (p Param) suffix() string {
	switch {
	case p.Required:
		return ""
	case p.Default != "":
		return " = " + p.Default
	}
	return " = None"
}

// Returns is the type of the tool's results in Python's words: what its
// outputSchema says, or else what earlier results were like, or else Any.
func (t Tool) Returns() string { return t.returns(docWidth) }

func (t Tool) returns(width int) string {
	switch {
	case t.output != nil:
		return t.output.text(width)
	case t.known:
		return t.learnt.returns(width)
	}
	return anyType
}

// Promises reports whether the tool declares an outputSchema.
func (t Tool) Promises() bool { return t.hasOutput }
