package systemd

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
)

// Names of the units.
const (
	ServiceUnit = "bridged.service"
	SocketUnit  = "bridged.socket"
)

//go:embed bridged.service
var service string

//go:embed bridged.socket
var socket string

// Units returns the texts of the user units by their names. bridged is the
// absolute path of the program. See systemd.unit(5), systemd.service(5) and
// systemd.socket(5).
func Units(bridged string) (map[string]string, error) {
	if !filepath.IsAbs(bridged) {
		return nil, fmt.Errorf("writing %s: the program's path %q must be absolute", ServiceUnit, bridged)
	}
	command, err := quote(bridged)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		ServiceUnit: strings.ReplaceAll(service, "{{.Bridged}}", command),
		SocketUnit:  socket,
	}, nil
}

// quote writes one word of a command line as systemd.service(5) reads it, in
// which % and $ stand for other things.
func quote(word string) (string, error) {
	if strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("writing %s: the program's path %q has a control character; install it elsewhere", ServiceUnit, word)
	}
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(word)
	if strings.ContainsAny(word, " '\"\\;") {
		return `"` + word + `"`, nil
	}
	return word, nil
}
