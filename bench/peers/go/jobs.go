package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/mattn/go-sqlite3"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

// jobQueue is an empty durable queue. Its jobs do nothing except calling ran.
type jobQueue struct {
	put   func() error
	fill  func(n int) error // puts n jobs as fast as possible
	start func(workers int, ran func()) (stop func())
	close func()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// openGoqite opens a new file. BENCH_GOQITE names the folder with goqite's schema; the settings are those of its
// README.
func openGoqite(synchronous string, poll time.Duration) func() jobQueue {
	return func() jobQueue {
		folder, err := os.MkdirTemp(os.Getenv("BENCH_FOLDER"), "goqite-")
		must(err)
		db, err := sql.Open("sqlite3", filepath.Join(folder, "jobs.db")+"?_journal=WAL&_timeout=5000&_fk=true&_sync="+synchronous)
		must(err)
		db.SetMaxOpenConns(1)
		db.SetMaxIdleConns(1)
		schema, err := os.ReadFile(filepath.Join(os.Getenv("BENCH_GOQITE"), "schema_sqlite.sql"))
		must(err)
		_, err = db.Exec(string(schema))
		must(err)
		queue := goqite.New(goqite.NewOpts{DB: db, Name: "default"})
		create := func() error {
			_, err := jobs.Create(background, queue, "noop", goqite.Message{Body: []byte("payload")})
			return err
		}
		return jobQueue{
			put: create,
			fill: func(n int) error {
				if err := create(); err != nil {
					return err
				}
				_, err := db.Exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
					INSERT INTO goqite (queue, body) SELECT queue, body FROM n, (SELECT queue, body FROM goqite LIMIT 1)`, n)
				return err
			},
			start: func(workers int, ran func()) func() {
				runner := jobs.NewRunner(jobs.NewRunnerOpts{Limit: workers, PollInterval: poll, Queue: queue})
				runner.Register("noop", func(context.Context, []byte) error { ran(); return nil })
				ctx, cancel := context.WithCancel(background)
				done := make(chan struct{})
				go func() { runner.Start(ctx); close(done) }()
				return func() { cancel(); <-done }
			},
			close: func() { _ = db.Close(); _ = os.RemoveAll(folder) },
		}
	}
}

type noop struct {
	Text string `json:"text"`
}

func (noop) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noop]
	ran func()
}

func (w *noopWorker) Work(context.Context, *river.Job[noop]) error { w.ran(); return nil }

// openRiver opens a new schema. River fetches as often as its settings allow.
func openRiver() jobQueue {
	const schema = "river_bench"
	config, err := pgxpool.ParseConfig(os.Getenv("BENCH_POSTGRES"))
	must(err)
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(background, config)
	must(err)
	_, err = pool.Exec(background, "SET client_min_messages = warning; DROP SCHEMA IF EXISTS "+schema+" CASCADE; CREATE SCHEMA "+schema)
	must(err)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	must(err)
	_, err = migrator.Migrate(background, rivermigrate.DirectionUp, nil)
	must(err)
	inserter, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema, FetchCooldown: time.Millisecond})
	must(err)
	return jobQueue{
		put: func() error {
			_, err := inserter.Insert(background, noop{Text: "payload"}, nil)
			return err
		},
		fill: func(n int) error {
			for left := n; left > 0; left -= 10_000 {
				batch := make([]river.InsertManyParams, min(left, 10_000))
				for i := range batch {
					batch[i].Args = noop{Text: "payload"}
				}
				if _, err := inserter.InsertManyFast(background, batch); err != nil {
					return err
				}
			}
			return nil
		},
		start: func(workers int, ran func()) func() {
			known := river.NewWorkers()
			river.AddWorker(known, &noopWorker{ran: ran})
			client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
				Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
				Workers:           known,
				FetchCooldown:     time.Millisecond,
				FetchPollInterval: time.Second,
				Schema:            schema,
			})
			must(err)
			must(client.Start(background))
			return func() { must(client.Stop(background)) }
		},
		close: pool.Close,
	}
}

// putJobs puts n jobs, atOnce at a time.
func putJobs(q jobQueue, n, atOnce int) result {
	defer q.close()
	must(q.put())
	return measure(n, func() {
		var wg sync.WaitGroup
		for i := 0; i < atOnce; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for left := n / atOnce; left > 0; left-- {
					must(q.put())
				}
			}()
		}
		wg.Wait()
	})
}

// runJobs runs the first n of the waiting jobs.
func runJobs(q jobQueue, waiting, n, workers int) result {
	defer q.close()
	must(q.fill(waiting))
	var count atomic.Int64
	done := make(chan struct{})
	var stop func()
	r := measure(n, func() {
		stop = q.start(workers, func() {
			if count.Add(1) == int64(n) {
				close(done)
			}
		})
		<-done
	})
	stop()
	return r
}

// startAlone measures the time from putting a job to its start, while there are no other jobs.
func startAlone(q jobQueue, n int) result {
	defer q.close()
	started := make(chan time.Time, 1)
	stop := q.start(8, func() { started <- time.Now() })
	defer stop()
	took := make([]float64, n)
	for i := range took {
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		must(q.put())
		took[i] = float64((<-started).Sub(begun).Nanoseconds())
	}
	slices.Sort(took)
	return result{NS: took[n/2], P99: took[n*99/100], Operations: n}
}

func addQueue(name string, open func() jobQueue) {
	add("B22-put", name, 2, func() result { return putJobs(open(), 300, 1) })
	add("B22-put100", name, 2, func() result { return putJobs(open(), 2_000, 100) })
	add("B22-run1", name, 2, func() result { return runJobs(open(), 500, 500, 1) })
	add("B22-run8", name, 2, func() result { return runJobs(open(), 2_000, 2_000, 8) })
	add("B22-many", name, 2, func() result { return runJobs(open(), 300_000, 2_000, 8) })
	add("B22-idle", name, 2, func() result { return startAlone(open(), 100) })
}

func init() {
	if os.Getenv("BENCH_GOQITE") != "" {
		addQueue("goqite", openGoqite("FULL", time.Millisecond))
		addQueue("goqite, synchronous=NORMAL", openGoqite("NORMAL", time.Millisecond))
		add("B22-idle", "goqite, polls every 100 ms", 2, func() result {
			return startAlone(openGoqite("FULL", 100*time.Millisecond)(), 50)
		})
	}
	if os.Getenv("BENCH_POSTGRES") != "" {
		addQueue("River", openRiver)
	}
}
