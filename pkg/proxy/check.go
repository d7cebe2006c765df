package proxy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bridged/bridged/pkg/discovery"
)

// fits refuses arguments that break the tool's inputSchema: the server would
// refuse them too, with fewer words, or take them for something else.
func (c *toolCall) fits() error {
	if !c.target.setting.validates() {
		return nil
	}
	misfits := c.session.proxy.opts.Catalog.Check(c.target.ref, c.tool, c.arguments)
	if len(misfits) == 0 {
		return nil
	}
	return c.invalid(misfits)
}

// invalid says what is wrong with the arguments, and what the tool takes.
func (c *toolCall) invalid(misfits []discovery.Misfit) *Error {
	var b strings.Builder
	fmt.Fprintf(&b, "The call of %s on server %s was not made, since its arguments don't fit the tool's schema:", clip(c.tool, 100), c.target.server.Name)
	for i := range misfits {
		misfits[i].Path = "arguments" + misfits[i].Path
		fmt.Fprintf(&b, "\n  %s %s", misfits[i].Path, misfits[i].Message)
	}
	if c.definition != nil {
		b.WriteString("\nIt is " + discovery.Signature(*c.definition))
	}
	e := errorf(CodeInvalidArguments, "%s", b.String())
	data, err := json.Marshal(map[string]any{"server": c.target.server.Name, "tool": c.tool, "problems": misfits})
	if err != nil {
		panic("proxy: marshaling strings: " + err.Error()) // cannot happen
	}
	e.Data = data
	return e
}
