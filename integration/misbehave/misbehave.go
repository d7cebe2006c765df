//go:build integration

// Package misbehave is an MCP server that does what a test or a benchmark wants
// of it, and what real servers do wrong.
//
// It is in the program that uses it: [Main], called first, makes a server of the
// process if it was started by the entry that [Config.Entry] returns. Messages
// are read and written as bytes, so that faults are exactly what a test says.
// [Config.Handler] is the same server over HTTP.
//
// # Tools
//
//	echo        {...}        the arguments as they were written: as structured
//	                         content, as text, and in _meta
//	big         {n}          one text of n bytes, see Text
//	blocks      {bare}       one block of each kind, see blocks; bare: without
//	                         structured content
//	content     {is}         a result whose content is just this JSON; without is
//	                         there is none
//	sleep_echo  {ms, v, how} v as text, after ms; how: "fail" or "never"
//	pay         {file, how}  appends a line to file, then exits ("exit"), or
//	                         answers; never if how is "never"; over HTTP with
//	                         the status 503 if it is "503"
//	slow        {}           no answer
//	tool_0001   {...}        and so on: as many as Config.Many says
package misbehave

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// variable holds the configuration of a process that is to be a server.
const variable = "BRIDGED_TEST_MISBEHAVE"

// A Config says how the server misbehaves. The zero value does not.
type Config struct {
	Before   string   `json:",omitempty"` // raw bytes before everything else
	Between  string   `json:",omitempty"` // raw bytes between a notification and the result of each tools/call
	After    string   `json:",omitempty"` // raw bytes after each message
	DelayMS  int      `json:",omitempty"` // before each answer
	Stderr   int      `json:",omitempty"` // bytes written to stderr at the start
	Many     int      `json:",omitempty"` // tools besides the usual ones
	Words    string   `json:",omitempty"` // that the descriptions of tools end with
	Page     int      `json:",omitempty"` // tools on a page of their list; 0 means all
	Frames   []string `json:",omitempty"` // messages sent once it is initialized
	Deaf     []string `json:",omitempty"` // methods that get no answer
	ExitAt   string   `json:",omitempty"` // the method at which it exits
	ExitCode int      `json:",omitempty"`
	Log      string   `json:",omitempty"` // file that gets each message received
}

// Entry returns the server as agents' config files have it.
func (c Config) Entry() (map[string]any, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return map[string]any{"command": exe, "env": map[string]string{variable: string(text)}}, nil
}

// Main is the whole program if it was started to be a server; else it returns at
// once.
func Main() {
	text, asked := os.LookupEnv(variable)
	if !asked {
		return
	}
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, "misbehave:", err)
		os.Exit(2)
	}
	s := newServer(c)
	if err := s.serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "misbehave:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Text is what the tool big returns.
func Text(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
