package service

import (
	"context"
	"errors"
)

// A task is a part of a service that runs until its context ends.
type task struct {
	name string
	run  func(ctx context.Context) error
}

// run starts tasks in their order. Once the context ends or a task returns, it stops them, the last one first: a task
// is stopped when all tasks after it have returned. It returns their errors.
func run(ctx context.Context, tasks []task) (err error) {
	type started struct {
		stop context.CancelFunc
		err  chan error
	}
	all := make([]started, len(tasks))
	returned := make(chan struct{}, len(tasks))
	for i, t := range tasks {
		one, stop := context.WithCancel(context.WithoutCancel(ctx))
		all[i] = started{stop, make(chan error, 1)}
		go func() {
			all[i].err <- t.run(one)
			returned <- struct{}{}
		}()
	}
	select {
	case <-ctx.Done():
	case <-returned:
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].stop()
		err = errors.Join(err, <-all[i].err)
	}
	return err
}

// until returns a task's run that ends a part when it is stopped.
func until(end func()) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		end()
		return nil
	}
}
