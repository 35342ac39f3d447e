// Puts the mutex of redsync under the load of `redouble-check bench`: each goroutine acquires the lock, holds it, releases it and
// begins again. See ../README.md for the arguments and the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const (
	// Longest wait for the lock, and its lease.
	wait = 10 * time.Second
	key  = "redsync-load"
)

var (
	over                      atomic.Bool
	holders, overlaps, failed atomic.Int64
)

// A goroutine with its results. They are read when the load is over, after `done`.
type caller struct {
	mutex    *redsync.Mutex
	cycles   int64
	acquired []float64
	done     chan struct{}
}

type report struct {
	Seconds  float64 `json:"seconds"`
	Cycles   []int64 `json:"cycles"`
	P50      float64 `json:"acquire_p50_us"`
	P99      float64 `json:"acquire_p99_us"`
	Failed   int64   `json:"failed"`
	Overlaps int64   `json:"overlaps"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "redsync-load:", err)
		os.Exit(2)
	}
}

func run(args []string) error {
	if len(args) < 6 {
		return fmt.Errorf("arguments: ADDRESS KIND CLIENTS TASKS SECONDS HOLD_US")
	}
	var numbers [4]int
	for i := range numbers {
		number, err := strconv.Atoi(args[i+2])
		if err != nil {
			return err
		}
		numbers[i] = number
	}
	clients, tasks, seconds, hold := numbers[0], numbers[1], numbers[2], numbers[3]
	// A try is repeated until the wait is over, not 32 times.
	options := []redsync.Option{redsync.WithExpiry(wait), redsync.WithTries(1 << 30)}
	if args[1] == "every-5-ms" {
		options = append(options, redsync.WithRetryDelay(5*time.Millisecond))
	}
	var callers []*caller
	for range clients {
		locks := redsync.New(goredis.NewPool(redis.NewClient(&redis.Options{Addr: args[0]})))
		for range tasks {
			one := &caller{mutex: locks.NewMutex(key, options...), done: make(chan struct{})}
			if err := one.mutex.Lock(); err != nil {
				return err
			}
			if _, err := one.mutex.Unlock(); err != nil {
				return err
			}
			callers = append(callers, one)
		}
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadByte(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	for _, one := range callers {
		go one.run(ctx, time.Duration(hold)*time.Microsecond)
	}
	time.Sleep(time.Duration(seconds) * time.Second)
	over.Store(true)
	elapsed := time.Since(began).Seconds()
	cancel()
	for _, one := range callers {
		<-one.done
	}
	return json.NewEncoder(os.Stdout).Encode(result(callers, elapsed))
}

func (one *caller) run(ctx context.Context, hold time.Duration) {
	defer close(one.done)
	for !over.Load() {
		one.cycle(ctx, hold)
	}
}

func (one *caller) cycle(ctx context.Context, hold time.Duration) {
	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := one.mutex.LockContext(limited); err != nil {
		if !over.Load() {
			failed.Add(1)
		}
		return
	}
	now := time.Now()
	if holders.Add(1) > 1 {
		overlaps.Add(1)
	}
	if !over.Load() {
		one.acquired = append(one.acquired, float64(now.Sub(asked).Nanoseconds())/1e3)
	}
	for time.Since(now) < hold {
		runtime.Gosched()
	}
	holders.Add(-1)
	ok, err := one.mutex.Unlock()
	switch {
	case over.Load():
	case ok && err == nil:
		one.cycles++
	default:
		failed.Add(1)
	}
}

func result(callers []*caller, seconds float64) report {
	result := report{Seconds: seconds, Failed: failed.Load(), Overlaps: overlaps.Load()}
	var acquired []float64
	for _, one := range callers {
		result.Cycles = append(result.Cycles, one.cycles)
		acquired = append(acquired, one.acquired...)
	}
	slices.Sort(acquired)
	if count := len(acquired); count > 0 {
		result.P50 = acquired[count/2]
		result.P99 = acquired[min(count-1, count*99/100)]
	}
	return result
}
