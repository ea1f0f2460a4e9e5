package sqltenant

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/*.sql
var migrations embed.FS

// postgresMigrations stand between and after the migrations that all databases have, by
// their numbers.
//
//go:embed migrations/postgres/*.sql
var postgresMigrations embed.FS

const (
	// maxConnections bounds what one node asks of PostgreSQL at a time, beside the
	// connection that listens.
	maxConnections = 8
	// connectTimeout bounds one try to connect.
	connectTimeout = 5 * time.Second
	// maxSilence is how long a process may say nothing to PostgreSQL in the middle of a
	// change: longer than callers wait for one, so that no slow network ends what goes on.
	maxSilence = 15 * time.Second
	// lockPoll is how many seconds a node waits between two looks at whether another
	// one has migrated, lockTries how often it looks.
	lockPoll, lockTries = 1, 60
	// migrateTries is how often a process migrates a file of SQLite again when another
	// one has come between: it has no lock for that, but each migration is made whole
	// or not at all, so that the next try finds it made.
	migrateTries = 20
	// channel is where PostgreSQL tells of changes.
	channel = "headgate_accounts"
	// ruleRowsNotice is what it says there of rows of rules, whoever wrote them: such
	// a change may have no version.
	ruleRowsNotice = "rule_rows"
)

// DB is a database of accounts. It is safe for concurrent use. Make one with Open.
type DB struct {
	read, write *sql.DB
	pool        *pgxpool.Pool   // nil with SQLite
	listen      *pgx.ConnConfig // nil with SQLite
	// freshen gives settings what files hold now; nil with SQLite.
	freshen    func(context.Context, *pgx.ConnConfig) error
	local      *bell         // told of changes by this process
	name       string        // for errors: without credentials
	rowNotices atomic.Int64  // how often rows of rules may have changed
	replica    *replica      // nil: it is written to, and tells of changes
	maxSilence time.Duration // with PostgreSQL; see the constant
}

// Open opens the database that dsn names, and brings its tables up to date under a
// lock, so that of several nodes that start at once one does it.
//
//	sqlite:///var/lib/headgate/tenants.db     the file is created if it is missing
//	postgres://user:password@host:5432/db     and all else that libpq takes, also
//	    password_file=PATH, server_name=NAME, min_tls=1.2|1.3 in its query
//
// Errors hold no credentials. The caller closes the database.
func Open(ctx context.Context, dsn string) (*DB, error) { return OpenVia(ctx, dsn, nil) }

// Dialer makes a connection, as net.Dialer.DialContext does.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// OpenVia is Open where via returns what makes connections to PostgreSQL in the place of
// dial, which it may call. TLS is put on what it makes. A nil via is Open; a file of SQLite
// has no connections.
func OpenVia(ctx context.Context, dsn string, via func(dial Dialer) Dialer) (*DB, error) {
	d, err := connect(ctx, dsn, via)
	if err != nil {
		return nil, err
	}
	if err := d.migrate(ctx); err != nil {
		return nil, errors.Join(d.failed("migrate", err), d.Close())
	}
	return d, nil
}

// Check refuses a dsn that Open could not use whatever there is at that address. It opens
// nothing, and its error holds no credentials.
func Check(dsn string) error {
	scheme, _, _ := strings.Cut(dsn, "://")
	switch scheme {
	case "sqlite":
		_, err := sqlitePath(dsn)
		return err
	case "postgres", "postgresql":
		_, err := postgresConfig(dsn)
		return err
	}
	return errNoAddress
}

var errNoAddress = errors.New("open tenants: not a database address; hint: sqlite:///path/to/tenants.db or postgres://user:password@host:5432/database")

func connect(ctx context.Context, dsn string, via func(Dialer) Dialer) (*DB, error) {
	scheme, _, _ := strings.Cut(dsn, "://")
	switch scheme {
	case "sqlite":
		return openSQLite(dsn)
	case "postgres", "postgresql":
		return openPostgres(ctx, dsn, via)
	}
	return nil, errNoAddress
}

func sqlitePath(dsn string) (string, error) {
	path := strings.TrimPrefix(dsn, "sqlite://")
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%") {
		return "", errors.New("open tenants: the path of a file of SQLite is absolute and has no '?', '#' or '%'; hint: sqlite:///var/lib/headgate/tenants.db")
	}
	return path, nil
}

// sslModes are those of libpq.
var sslModes = []string{"", "disable", "allow", "prefer", "require", "verify-ca", "verify-full"}

func postgresConfig(dsn string) (*pgxpool.Config, error) {
	access, err := parsePostgres(dsn)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(access.dsn)
	if err == nil {
		if err := plainHosts(config.ConnConfig); err != nil {
			return nil, err
		}
		return config, access.attach(config)
	}
	// The library's error repeats the address.
	if address, err := url.Parse(dsn); err == nil {
		if mode := address.Query().Get("sslmode"); !slices.Contains(sslModes, mode) {
			return nil, fmt.Errorf("open tenants: sslmode %.32q is not known; hint: one of%s", mode, strings.Join(sslModes, " "))
		}
	}
	return nil, errors.New("open tenants: the address of PostgreSQL cannot be read; hint: postgres://user:password@host:5432/database, special characters as %XX, and files that it names must be there")
}

// plainHosts refuses a host that is the rest of a password: the first '@' of an address ends the password, and a host is
// looked up, logged and shown.
func plainHosts(c *pgx.ConnConfig) error {
	hosts := []string{c.Host}
	for _, f := range c.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	for _, host := range hosts {
		if strings.Contains(host, "@") && !strings.HasPrefix(host, "/") {
			return errors.New("open tenants: the address of PostgreSQL has more than one '@'; hint: write that of a password as %40")
		}
	}
	return nil
}

// keepPrivate makes the file of a database, and what SQLite keeps beside it, readable for
// its owner alone: it says who may do what, and names keys.
func keepPrivate(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("open tenants: %s is a directory; hint: sqlite://%s/tenants.db names a file in it", path, strings.TrimSuffix(path, "/"))
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, privateFile)
	if err == nil {
		err = file.Close()
	} else if errors.Is(err, fs.ErrPermission) {
		return nil // it may be read all the same, or says itself that it cannot
	}
	if err != nil {
		return fmt.Errorf("open tenants: %w; hint: the directory must be there, and writable", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); err == nil && info.Mode().Perm()&^privateFile != 0 {
			// Of somebody else's file this fails, and its owner has said who may read it.
			_ = os.Chmod(path+suffix, privateFile)
		}
	}
	return nil
}

const privateFile fs.FileMode = 0o600

func openSQLite(dsn string) (*DB, error) {
	path, err := sqlitePath(dsn)
	if err != nil {
		return nil, err
	}
	if err := keepPrivate(path); err != nil {
		return nil, err
	}
	// Writers wait for each other from the begin of a transaction on, so that none
	// fails half way because another one came between.
	query := url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(NORMAL)", "busy_timeout(5000)", "foreign_keys(1)"},
		"_txlock": {"immediate"},
	}
	source := "file:" + path + "?" + query.Encode()
	write, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, fmt.Errorf("open tenants: %w", err)
	}
	write.SetMaxOpenConns(1)
	read, err := sql.Open("sqlite", source)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open tenants: %w", err), write.Close())
	}
	read.SetMaxOpenConns(4)
	return &DB{read: read, write: write, local: newBell(), name: dsn}, nil
}

func openPostgres(ctx context.Context, dsn string, via func(Dialer) Dialer) (*DB, error) {
	config, err := postgresConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = min(max(config.MaxConns, 2), maxConnections)
	config.ConnConfig.ConnectTimeout = connectTimeout
	if via != nil {
		config.ConnConfig.DialFunc = pgconn.DialFunc(via(Dialer(config.ConnConfig.DialFunc)))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open tenants: %w", err)
	}
	both := stdlib.OpenDBFromPool(pool)
	c := config.ConnConfig
	return &DB{
		read: both, write: both, pool: pool, listen: c.Copy(), freshen: config.BeforeConnect, local: newBell(), maxSilence: maxSilence,
		name: fmt.Sprintf("postgres://%s:%d/%s", c.Host, c.Port, c.Database),
	}, nil
}

func (d *DB) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	dialect, options := goose.DialectSQLite3, []goose.ProviderOption(nil)
	if d.postgres() {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPoll, lockTries))
		if err != nil {
			return err
		}
		further, err := onlyPostgres()
		if err != nil {
			return err
		}
		dialect, options = goose.DialectPostgres, append(options, goose.WithSessionLocker(locker), goose.WithGoMigrations(further...))
	}
	provider, err := goose.NewProvider(dialect, d.write, dir, options...)
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	for try := 1; err != nil && !d.postgres() && try < migrateTries && ctx.Err() == nil; try++ {
		_, err = provider.Up(ctx)
	}
	return err
}

// onlyPostgres returns the migrations that PostgreSQL alone has.
func onlyPostgres() ([]*goose.Migration, error) {
	files, err := fs.Glob(postgresMigrations, "migrations/postgres/*.sql")
	if err != nil {
		return nil, err
	}
	var all []*goose.Migration
	for _, name := range files {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, err
		}
		text, err := postgresMigrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, string(text))
			return err
		}}, nil))
	}
	return all, nil
}

func (d *DB) postgres() bool { return d.pool != nil }

// Close releases the connections. No call may follow.
func (d *DB) Close() error {
	if d.postgres() {
		err := d.read.Close()
		d.pool.Close()
		return err
	}
	return errors.Join(d.read.Close(), d.write.Close())
}

// String returns where the database is, without credentials.
func (d *DB) String() string { return d.name }

// failed names the operation and the database of an error.
func (d *DB) failed(op string, err error) error {
	return fmt.Errorf("%s tenants in %s: %w", op, d.name, reached(err))
}

// unwanted is what pgx says of a server that target_session_attrs does not take, which is not
// an error of a type.
const unwanted = "ValidateConnect failed"

// unwantedServer is err, of servers of which one that answers is not as target_session_attrs has
// it: in a failover the primary is away, and the standby not yet one.
func unwantedServer(err error) error {
	const hint = "target_session_attrs asks for another kind of server: has the standby been promoted?"
	if away, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%w, and no other server is as target_session_attrs has it; hint: %s", away, hint)
	}
	return fmt.Errorf("no server is as target_session_attrs has it; hint: %s", hint)
}

// reached is err with what to do where that is known, and of a PostgreSQL that could not be connected to only why: pgx has a line for
// each try of each address, and two tries where TLS may be left out.
func reached(err error) error {
	if isOther(err) {
		return fmt.Errorf("%w; hint: is this the right file?", err)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); !ok {
		return err
	}
	if strings.Contains(err.Error(), unwanted) {
		return unwantedServer(err)
	}
	if last, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%w; hint: is PostgreSQL running there?", last)
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refusal
	}
	return err
}
