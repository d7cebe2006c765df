package systemd

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Ready tells systemd that the service answers, with a line for `systemctl
// status`.
func Ready(status string) error {
	return notify(daemon.SdNotifyReady + "\nSTATUS=" + status)
}

// Stopping tells systemd that the service ends by itself.
func Stopping() error { return notify(daemon.SdNotifyStopping) }

func notify(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notifying systemd: %w", err)
	}
	return nil
}

// Watch tells systemd's watchdog every third of its time that the process works,
// for as long as alive says so, until ctx ends. alive gets that long at most,
// and is called by one goroutine; each of its errors, and those of telling, goes
// to report. Without a watchdog (WatchdogSec= in systemd.service(5)) Watch
// returns at once.
func Watch(ctx context.Context, alive func(context.Context) error, report func(error)) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		report(fmt.Errorf("reading systemd's watchdog time: %w", err))
		return
	}
	if limit <= 0 {
		return
	}
	period := limit / 3
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		if err := beat(ctx, period, alive); err != nil && ctx.Err() == nil {
			report(err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func beat(ctx context.Context, limit time.Duration, alive func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := alive(ctx); err != nil {
		return fmt.Errorf("not answering systemd's watchdog: %w", err)
	}
	return notify(daemon.SdNotifyWatchdog)
}
