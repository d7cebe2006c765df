package audit

import (
	"fmt"
	"time"
)

// run writes what is queued until Close.
func (l *Log) run(start Line) {
	defer close(l.done)
	if l.store == nil {
		var opened bool
		if start, opened = l.reopen(); !opened {
			l.opts.Logger.Error().Uint64("missing", l.dropped.Load()+uint64(len(l.queue))).Msg("audit log was never opened")
			return
		}
	}
	l.write([]Line{start})
	l.sync()
	for {
		select {
		case e := <-l.queue:
			l.write(l.gather(e))
			l.settle()
			l.rest()
		case <-l.synced:
			l.sync()
		case <-l.stop:
			l.finish()
			return
		}
	}
}

// reopen tries to open the log, after ever longer pauses, until it is open or
// closed for good.
func (l *Log) reopen() (start Line, opened bool) {
	began, o := time.Now(), l.opts
	o.lockPatience = 0 // a daemon that was stopping has had its time
	for pause := l.opts.retryPause; ; pause = min(2*pause, maxRetryPause) {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.stop:
			timer.Stop()
			return Line{}, false
		}
		why := *l.failure.Load()
		start, err := l.open(o)
		if err == nil {
			start.Detail = clip(fmt.Sprintf("%s; opened %s after the daemon's start: %v", start.Detail, time.Since(began).Round(time.Millisecond), why), maxDetail)
			return start, true
		}
		l.failure.Store(&err)
	}
}

// rest lets entries gather. More than a batch of them is written at once.
func (l *Log) rest() {
	if l.opts.Sync == 0 || len(l.queue) >= maxBatch {
		return
	}
	pause := time.NewTimer(l.opts.writePause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-l.stop:
	}
}

// gather makes lines of an entry and those that wait behind it, up to a batch.
func (l *Log) gather(e Entry) []Line {
	lines := []Line{l.take(e)}
	for len(lines) < maxBatch {
		select {
		case e := <-l.queue:
			lines = append(lines, l.take(e))
		default:
			return lines
		}
	}
	return lines
}

func (l *Log) take(e Entry) Line {
	l.weight.Add(-e.weight())
	return l.encoder.line(e)
}

// write writes lines, however often it takes, unless the log is closed.
func (l *Log) write(lines []Line) {
	for !l.try(lines) {
		pause := time.NewTimer(l.opts.retryPause)
		select {
		case <-pause.C:
		case <-l.stop:
			pause.Stop()
			if !l.try(lines) {
				l.dropped.Add(uint64(len(lines)))
			}
			return
		}
	}
}

// try writes lines once, and behind them a gap for those that were dropped.
func (l *Log) try(lines []Line) bool {
	missing := l.dropped.Load()
	if missing > 0 {
		gap := Line{Time: time.Now().UTC(), Kind: KindGap, Missing: missing, Detail: "they could not be written fast enough"}
		if err := l.failure.Load(); err != nil {
			gap.Detail = clip((*err).Error(), maxDetail)
		}
		lines = append(lines[:len(lines):len(lines)], gap)
	}
	if err := l.store.append(lines); err != nil {
		l.fail(err)
		return false
	}
	if missing > 0 {
		l.dropped.Add(-missing)
		l.opts.Logger.Error().Uint64("missing", missing).Msg("audit log has a gap")
	}
	l.succeed()
	return true
}

// settle sees to it that what was written reaches the disk in time.
func (l *Log) settle() {
	if l.opts.Sync == 0 {
		l.sync()
	} else if l.due == nil {
		l.syncIn(l.opts.Sync)
	}
}

func (l *Log) syncIn(d time.Duration) {
	l.due = time.AfterFunc(d, func() { l.synced <- struct{}{} }) // at most one is under way
}

// sync brings what was written to the disk. It is tried again when it fails.
func (l *Log) sync() {
	l.due = nil
	if err := l.store.sync(); err != nil {
		l.fail(err)
		l.syncIn(l.opts.retryPause)
		return
	}
	l.succeed()
}

// fail notes an error, and logs the first in a row.
func (l *Log) fail(err error) {
	if l.failure.Swap(&err) == nil {
		l.opts.Logger.Error().Err(err).Bool("refuse", l.opts.Refuse).Msg("write audit log")
	}
}

func (l *Log) succeed() {
	if l.failure.Load() != nil {
		l.failure.Store(nil)
		l.opts.Logger.Info().Msg("audit log is written again")
	}
}

// finish writes what is left, and a last line.
func (l *Log) finish() {
	for {
		select {
		case e := <-l.queue:
			l.write(l.gather(e))
			continue
		default:
		}
		break
	}
	if l.due != nil {
		l.due.Stop()
	}
	stop := Line{Time: time.Now().UTC(), Kind: KindStop, Detail: fmt.Sprintf("%d entries were lost at the end", l.dropped.Load())}
	if l.dropped.Load() == 0 {
		stop.Detail = ""
	}
	if l.try([]Line{stop}) {
		l.sync()
		return
	}
	l.opts.Logger.Error().Uint64("missing", l.dropped.Load()).Msg("audit log ends with a gap")
}
