// Package systemd is what the daemon gets from systemd and says to it, and the
// user units that have it run as a service.
//
// A process that systemd has not started gets nothing from it, and what it says
// goes nowhere: every function here is safe to call then.
package systemd
