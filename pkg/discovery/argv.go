package discovery

import (
	"fmt"
	"strings"
)

// Argv returns the program and arguments to start an expanded stdio server
// with on a system named as by runtime.GOOS. No shell is involved. A config
// written for Windows is brought over where that is safe: cmd /c is taken off.
// The error says what about the command cannot work here.
func (s Server) Argv(goos string) ([]string, error) {
	if s.Transport != Stdio {
		return nil, fmt.Errorf("server %s is reached by %s, it has no command", s.Name, s.Transport)
	}
	argv := append([]string{s.Command}, s.Args...)
	if looksLikeCommandLine(s.Command) && strings.Contains(s.Command, " ") && len(s.Args) == 0 {
		return nil, fmt.Errorf("server %s: its command looks like a whole command line; put the program into command and the rest into args", s.Name)
	}
	if goos == "windows" {
		return argv, nil
	}
	if isCmd(s.Command) {
		if len(s.Args) < 2 || !strings.EqualFold(s.Args[0], "/c") || strings.ContainsAny(s.Args[1], " \t") {
			return nil, fmt.Errorf("server %s: it is a Windows-only entry, since its command is cmd", s.Name)
		}
		argv = s.Args[1:]
	}
	if isWindowsProgram(argv[0]) {
		return nil, fmt.Errorf("server %s: it is a Windows-only entry, since its command is a Windows program", s.Name)
	}
	return argv, nil
}

func isCmd(command string) bool {
	return strings.EqualFold(command, "cmd") || strings.EqualFold(command, "cmd.exe")
}

// isWindowsProgram reports whether a command is a path with a drive letter or
// ends like a program of Windows.
func isWindowsProgram(command string) bool {
	if len(command) > 2 && command[1] == ':' && command[2] == '\\' {
		return true
	}
	lower := strings.ToLower(command)
	for _, ext := range []string{".exe", ".cmd", ".bat", ".ps1"} {
		if strings.HasSuffix(lower, ext) {
			return true
		}
	}
	return false
}
