package headgate_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/headgate/headgate"

// rooms says which packages of this module each package may import; "." is the
// root. A package that is not here may not exist: give it a place first. The
// reason says why the wall stands.
var rooms = map[string]struct {
	allowed []string
	reason  string
}{
	"limit":                        {nil, "deciding is a value: pure maths stands on nothing"},
	"descriptor":                   {nil, "names of requests stand on nothing"},
	"reservation":                  {[]string{"limit", "descriptor"}, "what a reservation says is text: whoever charges and settles it is elsewhere"},
	"repeat":                       {[]string{"limit", "descriptor", "store", "trace", "verdict"}, "what is remembered of a check is text: whoever decides and remembers is elsewhere"},
	"verdict":                      {nil, "the words of answers stand on nothing"},
	"trace":                        {nil, "the names of spans and decisions are text, whoever records them"},
	"internal/cron":                {nil, "when a minute of the clock comes again is no matter of what it begins"},
	"rules":                        {[]string{"limit", "descriptor", "internal/cron"}, "rules are an immutable set: no language, no store, no source, no wire"},
	"rules/rulefile":               {[]string{"internal/ascii", "rules", "limit", "descriptor", "internal/cron", "internal/spelling"}, "what people write becomes rules, whoever decides by them"},
	"rules/describe":               {[]string{"rules", "limit", "descriptor"}, "what rules do is said of the rules alone, however they were written"},
	"rules/lint":                   {[]string{"rules", "rules/describe", "limit"}, "what is hardly meant is seen in the rules alone, however they were written"},
	"rules/candidates":             {[]string{"rules", "rules/diff", "rules/rulefile", "limit"}, "candidates become text where rules are, whoever thought of them"},
	"rules/diff":                   {[]string{"rules"}, "what differs is seen in the rules alone, however they were written"},
	"identity":                     {[]string{"internal/halfclose", "internal/sleep", "internal/ascii", "internal/regular", "descriptor", "internal/hideurl"}, "who asks is told from a request alone, whatever is then done with it"},
	"rules/ruletest":               {[]string{"internal/yamlfile", "rules", "rules/rulefile", "limit", "descriptor"}, "rule tests are told who decides"},
	"tenant":                       {[]string{"internal/ascii", "limit", "descriptor"}, "what customers may use is resolved without a database and without a clock"},
	"tenant/sqltenant":             {[]string{"tenant", "limit", "rules", "internal/credentials", "internal/sleep"}, "a database keeps accounts and rows of rules, and knows nothing of requests"},
	"switches":                     {[]string{"limit", "descriptor", "internal/strictjson"}, "what operators have switched is a value: whoever reads and obeys it is elsewhere"},
	"trial":                        {[]string{"rules", "limit", "descriptor"}, "what candidates would change is sums of what others have decided"},
	"store":                        {[]string{"limit", "internal/ascii"}, "the contract of stores knows none of them"},
	"store/memstore":               {[]string{"store", "limit", "internal/fastclock", "internal/heap"}, "a store knows keys as bytes, not the rules or requests behind them"},
	"store/redisstore":             {[]string{"store", "limit", "store/coalesce", "store/spread", "store/redisstore/conn", "internal/resp", "internal/sleep"}, "a store knows keys as bytes, not the rules or requests behind them"},
	"store/memcachestore":          {[]string{"store", "limit", "store/breaker", "internal/credentials", "internal/sleep"}, "a store knows keys as bytes, not the rules or requests behind them"},
	"store/spread":                 {[]string{"store", "limit"}, "dividing a batch is no matter of those who decide its parts"},
	"store/coalesce":               {[]string{"store", "limit"}, "joining callers is no matter of one store"},
	"store/breaker":                {nil, "a breaker counts outcomes and knows no store"},
	"store/hotkey":                 {nil, "a detector counts hashes and knows no store"},
	"store/accuracy":               {[]string{"store", "limit", "descriptor", "internal/memo"}, "what is measured is known from takes and their answers, without the rules or the limiter behind them"},
	"store/denial":                 {[]string{"store", "limit", "internal/sleep"}, "what a store has denied is remembered without knowing which store"},
	"store/fleet":                  {[]string{"store"}, "nodes are counted by any roster"},
	"store/subbucket":              {[]string{"store", "limit"}, "a bucket is spread over parts in any store"},
	"store/demand":                 {nil, "an estimate counts hits and knows no store"},
	"store/steady":                 {nil, "a clock knows nothing of what is counted by it"},
	"store/lease":                  {[]string{"store", "limit", "internal/sweep", "store/demand", "store/hotkey", "store/spread", "store/steady"}, "a store over another knows neither which one nor who asks"},
	"store/totals":                 {[]string{"store", "limit", "internal/memo", "internal/sleep"}, "regions tell each other by any store that takes in totals, and count by any other"},
	"store/regional":               {[]string{"store", "limit", "store/demand", "store/steady", "internal/memo", "internal/sleep", "internal/sweep"}, "regions lease by any store that lends, and count by any other"},
	"store/reconcile":              {[]string{"store", "limit", "internal/sleep"}, "what passed is charged by limits and keys, not by rules"},
	"store/local":                  {[]string{"store", "limit", "store/memstore"}, "a share of a limit is decided in memory"},
	"store/storetest":              {[]string{"store", "limit", "internal/vectors"}, "the suite must run on any store, also on those of others"},
	"overload":                     {nil, "shedding is sums of counts and times: it stands by itself under every way in"},
	"overload/httpshed":            {[]string{"internal/ascii", "overload", "internal/watched"}, "shedding over HTTP asks the shedders and knows no limits"},
	"overload/grpcshed":            {[]string{"overload"}, "shedding over gRPC asks the shedders and knows no limits"},
	"overload/fleetusage":          {[]string{"overload", "store", "limit"}, "the usage of a fleet is counted in any store"},
	"internal/vectors":             {[]string{"limit"}, "recorded decisions replay against every implementation, and so depend on none"},
	"internal/ledger":              {[]string{"descriptor", "limit", "reservation", "store", "tenant"}, "who pays for a reservation is reckoned of what stores have said, whoever asks them"},
	"internal/once":                {[]string{"repeat", "store", "internal/sleep"}, "a check is claimed and remembered by its key, whoever decides it"},
	"internal/orphans":             {[]string{"limit", "store"}, "slots are remembered by who has them, whoever asks for their release"},
	"internal/stopwatch":           {nil, "calls are timed whatever they do"},
	"internal/turns":               {[]string{"store"}, "who waits for its turn may want anything"},
	"internal/storemode":           {[]string{"internal/memo", "rules", "store"}, "what stores are told of rules follows from these alone"},
	".":                            {[]string{"internal/ledger", "internal/once", "internal/orphans", "internal/sleep", "internal/stopwatch", "internal/storemode", "limit", "descriptor", "rules", "store", "switches", "tenant", "trace", "repeat", "reservation", "trial", "verdict", "internal/memo"}, "the engine knows no wire, no telemetry and no single store"},
	"internal/rulesource":          {[]string{"rules", "rules/rulefile", "internal/regular", "internal/sleep"}, "where rule bytes come from is no matter of those who decide"},
	"internal/httpanswer":          {[]string{"internal/ascii", ".", "limit", "descriptor", "rules", "store", "internal/cut"}, "what clients are told is one room under all ways in"},
	"internal/rls":                 {[]string{"internal/turns", "internal/h2", "internal/memo", "internal/openapi", "internal/callers", "internal/inlet", "internal/refusals", ".", "limit", "descriptor", "rules", "store", "internal/httpanswer", "trace", "repeat", "reservation", "verdict"}, "a way in asks a one-method Checker and knows no other way in"},
	"internal/httpcheck":           {[]string{"internal/turns", "internal/callers", "internal/memo", "internal/openapi", "internal/problems", "tenant", ".", "limit", "descriptor", "rules", "store", "internal/httpanswer", "internal/strictjson", "trace", "repeat", "reservation"}, "a way in asks a one-method Checker and knows no other way in"},
	"client":                       {[]string{".", "limit", "descriptor", "rules", "store", "store/breaker", "trace", "repeat", "reservation", "verdict", "internal/ascii", "internal/sleep", "internal/credentials"}, "a caller's side speaks the types of the limiter and knows no way in"},
	"internal/admission":           {[]string{"internal/heap", ".", "limit", "descriptor", "rules", "store", "verdict", "internal/sleep"}, "letting calls in is one room under the fronts that run a handler, whatever they speak"},
	"httplimit":                    {[]string{".", "limit", "descriptor", "rules", "identity", "store", "store/memstore", "internal/ascii", "internal/httpanswer", "internal/admission", "internal/fastclock", "internal/watched", "trace"}, "a middleware asks a one-method Checker; the preset without rules brings its own store"},
	"answercost":                   {[]string{"internal/ascii"}, "what an answer cost is read from its bytes alone, whoever charges it"},
	"costlimit":                    {[]string{"internal/ascii", ".", "answercost", "descriptor", "httplimit", "limit", "reservation", "rules", "store", "internal/sleep"}, "costs are reserved around a handler by the middleware that limits requests, and read by a room that knows no limits"},
	"grpclimit":                    {[]string{".", "limit", "descriptor", "rules", "internal/httpanswer", "internal/admission", "trace"}, "interceptors ask a one-method Checker"},
	"internal/forwardauth":         {[]string{"internal/turns", "internal/ascii", "internal/problems", "internal/callers", ".", "limit", "descriptor", "rules", "identity", "internal/httpanswer", "internal/admission", "repeat", "trace"}, "a way in asks a one-method Checker and knows no other way in"},
	"internal/extauthz":            {[]string{"internal/callers", "internal/httpanswer", "internal/forwardauth"}, "sub-requests over gRPC are decided as those over HTTP are"},
	"internal/statsd":              {[]string{"internal/sleep"}, "what is sent is names and numbers, whoever has counted"},
	"internal/dualrun":             {[]string{"internal/credentials", "internal/view"}, "two services are compared by what both say over the wire, whoever decides"},
	"internal/rlqs":                {[]string{".", "limit", "descriptor", "store", "verdict", "internal/protofields", "internal/shares"}, "what Envoys may let pass is charged by the rules, and divided knowing no rule"},
	"client/stream/streampb":       {nil, "messages are made of their description alone"},
	"internal/streamwire":          {nil, "both ends of a stream number the fields of its messages alike"},
	"internal/protofields":         {nil, "fields are read alike, whatever their messages say"},
	"client/stream":                {[]string{"internal/sleep", "internal/protofields", "internal/streamwire", "client/stream/streampb"}, "a gateway asks in the types of Envoy, and needs nothing of the limiter"},
	"internal/streamfront":         {[]string{"internal/sleep", "internal/protofields", "internal/streamwire", "client/stream/streampb", "internal/rls", "internal/shares"}, "checks over a stream are framed and bounded here, and decided as those over calls are"},
	"internal/respfront":           {[]string{"internal/ascii", "internal/turns", "internal/callers", "internal/httpanswer", "internal/inlet", "internal/memo", "internal/refusals", ".", "limit", "descriptor", "repeat", "store"}, "a way in asks a small Checker and knows no other way in"},
	"internal/loadgen":             {[]string{".", "descriptor", "limit", "rules", "store/memstore", "internal/sleep"}, "what a server answers is judged by the rules alone"},
	"internal/openapi":             {nil, "documents are made of types, whoever sends them"},
	"internal/turns/turnstest":     {[]string{"internal/turns", "store", "store/memstore"}, "tests of turns need places and a store that waits, whoever takes them"},
	"internal/openapi/openapitest": {nil, "answers are held against a document by what it says alone"},
	"internal/yamlfile/slips":      {[]string{"internal/yamlfile"}, "files are broken alike, whoever reads them"},
	"internal/memo":                {nil, "what was made of small keys is remembered, whatever it is"},
	"internal/sweep":               {nil, "what a process holds is looked at again and again, whatever it is"},
	"internal/proxy":               {[]string{"internal/ascii", "internal/halfclose", "internal/httpanswer"}, "what forwards knows nothing of limits: they are put around it"},
	"internal/telemetry":           {[]string{".", "limit", "rules", "store", "store/denial", "store/fleet", "store/lease", "store/memstore", "store/reconcile", "store/regional", "store/subbucket", "internal/sleep", "internal/view", "repeat", "reservation", "trial", "verdict", "internal/processor"}, "an observer sees decisions and reaches into nothing"},
	"internal/view":                {nil, "what operators see is types that the API, the dashboard and the terminal share"},
	"internal/explain":             {[]string{".", "descriptor", "limit", "rules", "rules/describe", "store", "switches", "tenant", "internal/keyname", "internal/openapi", "internal/problems", "internal/view", "internal/strictjson", "verdict"}, "what would be decided is told by a dry run, through one small interface"},
	"internal/apikeys":             {[]string{"internal/regular", ".", "descriptor", "identity", "reservation", "rules/rulefile", "tenant", "internal/credentials", "internal/identityfile", "trace"}, "keys become names before anything decides or sees, whoever asks"},
	"internal/keylookup":           {[]string{"internal/hideurl"}, "who is asked over the network which keys are known is no matter of those who decide"},
	"internal/keyname":             {[]string{".", "descriptor", "identity", "internal/credentials"}, "keys are named alike in metrics, events and lists, whoever asks"},
	"internal/heavy":               {nil, "the largest counts of keys are found by their hashes, whatever they name"},
	"internal/topkeys":             {[]string{".", "descriptor", "rules", "store", "internal/heavy", "internal/keyname", "internal/view"}, "an observer sees decisions and reaches into nothing"},
	"internal/audit":               {[]string{"internal/ascii", "internal/cut", "internal/filelock", ".", "descriptor", "identity", "limit", "rules", "store", "internal/credentials", "internal/keyname", "internal/view", "trace", "verdict", "internal/sleep"}, "an observer sees decisions and reaches into nothing"},
	"internal/otlp":                {[]string{"internal/tlsfile"}, "a collector is named in the same way, whatever it is told"},
	"internal/metricpush":          {[]string{"internal/otlp", "internal/sleep"}, "what is sent is what is scraped, whoever has counted"},
	"internal/tracing":             {[]string{"internal/cut", ".", "rules", "store", "internal/otlp", "internal/view"}, "an observer sees decisions and reaches into nothing"},
	"internal/denialog":            {[]string{"internal/cut", ".", "descriptor", "limit", "rules", "store", "internal/keyname", "verdict"}, "an observer sees decisions and reaches into nothing"},
	"internal/refusals":            {[]string{"identity", "internal/sleep"}, "who is turned away is counted alike at all doors, and which credential it was is known to none but the door"},
	"internal/issuers":             {[]string{"internal/ascii", "identity"}, "what an issuer says of itself is read alike, whoever its tokens are for"},
	"internal/oidclogin":           {[]string{"internal/ascii", "identity", "internal/hideurl", "internal/credentials", "internal/issuers"}, "logging in at an issuer knows nothing of browsers and sessions, and decides nothing of scopes"},
	"internal/dashboard":           {[]string{"internal/ascii", "internal/oidclogin", "internal/problems", "internal/refusals", "internal/sleep", "internal/strictjson"}, "the dashboard shows what the admin API says, and knows nothing more"},
	"internal/watched":             {nil, "seeing how an answer begins is no matter of why one looks"},
	"internal/fastclock":           {nil, "time passes alike whoever asks for it"},
	"internal/processor":           {nil, "where a caller runs is no matter of what it counts there"},
	"internal/backlog":             {nil, "who waits at a listener is no matter of what is served"},
	"internal/nonblock":            {[]string{"internal/sleep"}, "never waiting for a reader is no matter of what is written"},
	"internal/h1":                  {[]string{"internal/halfclose", "internal/inlet"}, "HTTP/1.1 is spoken without knowing what is asked in it"},
	"internal/h2":                  {[]string{"internal/inlet"}, "HTTP/2 is spoken without knowing what is asked in it"},
	"internal/h2guard":             {[]string{"internal/halfclose"}, "frames are counted before any server, whatever it serves"},
	"internal/strictjson":          {[]string{"internal/ascii", "internal/spelling"}, "JSON that comes in is read alike at every door"},
	"internal/credentials":         {[]string{"internal/regular", "internal/tlsfile"}, "what a client shows and trusts is the same for all servers that it asks"},
	"internal/markup":              {nil, "text is put into pages alike, whoever chose it"},
	"internal/excerpt":             {nil, "where an error stands is shown of any text, whoever may see it"},
	"internal/spelling":            {nil, "what somebody meant is found by letters alone"},
	"internal/yamlfile":            {[]string{"internal/excerpt", "internal/regular", "internal/spelling"}, "reading what an operator writes is no matter of what it says"},
	"internal/tlsfile":             {[]string{"internal/regular"}, "certificates are read and changed alike on all listeners and connections, whoever is at the other end"},
	"internal/tokenfile":           {[]string{"internal/ascii", "internal/yamlfile"}, "tokens are made and read alike, whatever they are good for"},
	"internal/inlet":               {[]string{"internal/h2guard", "internal/halfclose", "internal/sleep"}, "connections are bounded and secured before any server, whatever it serves"},
	"internal/callers":             {[]string{".", "internal/tokenfile", "internal/inlet", "internal/refusals", "internal/spelling", "internal/tlsfile", "internal/yamlfile"}, "who may ask is said in one room under all ways in, and enforced by the door that it finds"},
	"internal/keyfile":             {[]string{"identity", "internal/yamlfile"}, "the keys of a file are read alike, whatever is signed with them"},
	"internal/usagetoken":          {[]string{"descriptor", "identity", "internal/keyfile", "internal/yamlfile"}, "a token is checked by its key alone: nothing is kept of it"},
	"tenantusage":                  {[]string{".", "descriptor", "limit", "rules", "store", "tenant", "verdict"}, "what was used is read by peeks, over the limiter and not inside of it"},
	"internal/usageview":           {[]string{".", "store", "tenant", "internal/quotas", "tenantusage"}, "what was used is told alike to operators and tenants"},
	"internal/selflimit":           {[]string{".", "descriptor", "limit", "store/memstore", "internal/httpanswer"}, "what limits the APIs of Headgate knows none of them"},
	"internal/customer":            {[]string{"internal/tokenfile", ".", "limit", "tenant", "internal/problems", "internal/refusals", "internal/selflimit", "internal/usagetoken", "internal/usageview", "tenantusage"}, "a tenant reads its own usage through one method, and can change nothing"},
	"internal/webhook":             {[]string{".", "descriptor", "identity", "limit", "rules", "store", "tenant", "internal/hideurl", "internal/keyfile", "internal/quotas", "internal/spelling", "internal/yamlfile", "internal/sleep", "verdict"}, "who is told sees decisions and reaches into nothing"},
	"internal/quotas":              {[]string{"internal/regular", "descriptor", "identity", "limit", "tenant", "tenant/sqltenant", "internal/rulesource", "internal/strictjson"}, "what people write of accounts is read in one place, whoever asks"},
	"internal/tierfile":            {[]string{"tenant", "limit", "internal/yamlfile"}, "the file of tiers becomes tiers, whoever resolves by them"},
	"internal/promhistory":         {[]string{"internal/hideurl", "internal/view"}, "a Prometheus is asked in one place, and who shows its answers knows no PromQL"},
	"internal/timeline":            {[]string{"internal/regular", "internal/rulesource", "internal/view"}, "what was answered over time is remembered by what it is told, and asks nobody"},
	"internal/regionview":          {[]string{"internal/regionfile", "internal/view", "rules", "store/regional", "store/totals"}, "how regions are doing is told by what was counted, and asks nobody"},
	"internal/regionfile":          {[]string{"rules", "limit", "internal/yamlfile", "store/regional", "store/totals"}, "the file of regions says how limits are cut, and opens no store"},
	"internal/costfile":            {[]string{"answercost", "costlimit", "internal/spelling", "internal/yamlfile"}, "the file of costs becomes options, and charges nothing"},
	"internal/storefile":           {[]string{"rules", "internal/config", "internal/yamlfile"}, "the file of stores names them, and opens none"},
	"internal/identityfile":        {[]string{"identity", "internal/spelling", "internal/yamlfile"}, "the file of who asks becomes an extractor, whatever way in uses it"},
	"internal/adminapi": {[]string{"internal/ascii", "internal/issuers", "internal/openapi", "internal/problems", "internal/spelling",
		"internal/sleep",
		"internal/tokenfile",
		".",
		"descriptor",
		"identity",
		"internal/advice",
		"internal/drill",
		"internal/explain",
		"internal/promhistory",
		"internal/timeline",
		"internal/quotas",
		"internal/recommend",
		"internal/refusals",
		"internal/replay",
		"internal/rulereview",
		"internal/selflimit",
		"internal/strictjson",
		"internal/switchboard",
		"internal/tierfile",
		"internal/usageview",
		"internal/view",
		"internal/webhook",
		"internal/yamlfile",
		"limit",
		"rules",
		"rules/candidates",
		"rules/describe",
		"rules/lint",
		"rules/rulefile",
		"store",
		"switches",
		"tenant",
		"tenant/sqltenant",
		"tenantusage",
		"trace",
		"trial",
	}, "operators change what tenants may use; whoever decides reads it elsewhere"},
	"internal/shares":    {[]string{"internal/admission"}, "what an address has of a process is no matter of what its calls ask"},
	"internal/heap":      {nil, "what comes first is found by comparing, whatever it is"},
	"internal/halfclose": {nil, "which direction of a connection ends is no matter of what was sent"},
	"internal/cut":       {nil, "a text is bounded alike, whatever it says"},
	"internal/ascii":     {nil, "what a name is made of is seen in the name alone, whatever it names"},
	"internal/filelock":  {nil, "who has a file is known to the system alone, whatever stands in it"},
	"internal/resp":      {[]string{"internal/sleep"}, "a protocol knows nothing of what is said in it"},
	"internal/regular":   {nil, "what is a file is known before it is opened, whatever stands in it"},
	"internal/problems":  {nil, "what is wrong with a call is said alike, whoever was asked"},
	"internal/hideurl":   {nil, "what an error may not hold is no matter of whom was asked"},
	"internal/sleep":     {nil, "waiting is no matter of what for"},
	"internal/config":    {[]string{"internal/ascii", "internal/spelling", "internal/yamlfile"}, "settings are read before there is anything else"},
	"internal/xdsrules":  {[]string{"rules/rulefile", "internal/sleep"}, "a control plane is asked in one place; whoever has the rules puts them in force"},
	"internal/systemd":   {nil, "who started a process is told of it in a line, whatever it does"},
	"internal/manual":    {nil, "what a command line has is said of its table alone, whatever the commands do"},
	"internal/simulate":  {[]string{"internal/heap", "internal/markup", "limit"}, "how exact algorithms are is reckoned from them alone"},
	"internal/advice":    {[]string{"internal/recommend", "internal/replay", "limit", "rules", "rules/candidates"}, "what was recorded becomes recommendations, whoever prints them and puts them in force"},
	"internal/recommend": {[]string{"limit", "store"}, "what a limit might be follows from what was asked, whoever recorded it"},
	"internal/accesslog": {[]string{"descriptor", "limit"}, "what a line says is text and numbers, whoever believes it"},
	"internal/replay": {[]string{
		"internal/heap",
		".",
		"descriptor",
		"identity",
		"internal/accesslog",
		"internal/heavy",
		"internal/keyname",
		"internal/markup",
		"internal/view",
		"limit",
		"rules",
		"store",
		"store/memstore",
		"tenant",
		"verdict",
	}, "what was recorded is asked again of the limiter itself, without a server"},
	"internal/urlrules":    {[]string{"internal/ascii", "rules/rulefile", "internal/hideurl", "internal/sleep"}, "documents of the web are asked for in one place; whoever has the rules puts them in force"},
	"internal/importer":    {[]string{"descriptor", "internal/strictjson", "internal/yamlfile", "limit", "rules", "rules/rulefile"}, "what others wrote becomes a rule file, which whoever decides reads like any other"},
	"internal/envoyenv":    {[]string{"store"}, "what another service's environment means is a table and pure functions"},
	"internal/linelimit":   {[]string{"limit"}, "lines of logs are limited as requests are, whoever writes them"},
	"internal/adminlink":   {[]string{"internal/problems"}, "asking admin processes is no matter of what they are asked"},
	"internal/accountfile": {[]string{"internal/regular", "tenant", "tenant/sqltenant", "internal/quotas", "internal/rulesource"}, "a file finds accounts, whoever wrote them and whoever asks"},
	"internal/signing":     {[]string{"internal/regular"}, "who signs knows nothing of what is said"},
	"internal/chainfile":   {[]string{"tenant", "tenant/sqltenant", "internal/signing", "internal/strictjson"}, "the log of changes is verified from a file alone, whoever wrote it"},
	"internal/snapfeed":    {[]string{"internal/regular", "internal/problems", "internal/signing", "tenant", "tenant/sqltenant", "internal/accountfile", "internal/quotas", "internal/rulesource", "internal/strictjson", "internal/sleep"}, "what is published is signed bytes, whoever decides by them"},
	"internal/switchboard": {[]string{"internal/regular", ".", "rules", "store", "switches", "tenant/sqltenant", "internal/rulesource", "internal/sleep", "internal/strictjson"}, "what is switched is kept and obeyed alike, whoever shows and changes it"},
	"internal/drill":       {nil, "what a drill is, and what it adds up to, is said without a clock, a store or a connection"},
	"internal/wallclock":   {[]string{"limit"}, "a clock knows neither who reads it nor who sets it"},
	"internal/passage":     {nil, "what breaks a connection knows neither what it is for nor why it breaks"},
	"internal/rehearsal":   {[]string{".", "internal/drill", "internal/sleep", "store", "verdict"}, "a node takes part in drills by text in a store, whatever the fault is put to"},
	"internal/hotraise":    {[]string{"internal/sleep", "limit", "rules", "store", "store/hotkey", "internal/strictjson"}, "what is raised is text in a store, whoever decides by it and shows it"},
	"internal/inquiry":     {[]string{"store", "internal/sleep"}, "what nodes ask each other is text in a store, whatever it is about"},
	"internal/nodes":       {[]string{"internal/regular", "store", "internal/rulesource", "internal/sleep", "internal/view"}, "what nodes tell each other is text in a store, whoever makes and shows it"},
	"internal/tenantsource": {[]string{
		".",
		"internal/accountfile",
		"internal/linelimit",
		"internal/quotas",
		"internal/rulesource",
		"internal/sleep",
		"internal/snapfeed",
		"internal/switchboard",
		"internal/telemetry",
		"internal/tierfile",
		"internal/view",
		"limit",
		"rules",
		"rules/lint",
		"rules/rulefile",
		"switches",
		"tenant",
		"tenant/sqltenant",
		"trial",
	}, "where accounts come from is no matter of those who decide"},
	"internal/rulereview": {[]string{".", "internal/replay", "internal/view", "limit", "rules", "rules/diff", "rules/rulefile", "rules/ruletest", "store", "store/memstore", "tenant"}, "what other rules would do is asked of the limiter itself, whoever may put them in force"},
	"internal/rulesview":  {[]string{"limit", "rules", "rules/describe"}, "rules are shown as they are in force, wherever they come from"},
	"internal/reach":      {[]string{"identity", "rules"}, "whether rules want what a file asks for is told without a request"},
	"internal/hostguard":  {[]string{"internal/config", "internal/problems"}, "hosts of operators are told by their names alone"},
	"internal/app": {[]string{
		"internal/ascii",
		"internal/filelock", "internal/regular",
		"internal/h1",
		"internal/h2",
		"internal/callers",
		"internal/inlet",
		"internal/sleep",
		"internal/tlsfile",
		".",
		"costlimit",
		"httplimit",
		"identity",
		"internal/adminapi",
		"internal/adminlink",
		"internal/apikeys",
		"internal/keylookup",
		"internal/audit",
		"internal/backlog",
		"internal/config",
		"internal/credentials",
		"internal/costfile",
		"internal/customer",
		"internal/dashboard",
		"internal/denialog",
		"internal/dualrun",
		"internal/promhistory",
		"internal/explain",
		"internal/extauthz",
		"internal/forwardauth",
		"internal/h2guard",
		"internal/hostguard",
		"internal/drill",
		"internal/hotraise",
		"internal/passage",
		"internal/turns",
		"internal/wallclock",
		"internal/problems",
		"internal/rehearsal",
		"internal/httpanswer",
		"internal/httpcheck",
		"internal/identityfile",
		"internal/inquiry",
		"internal/keyfile",
		"internal/keyname",
		"internal/linelimit",
		"internal/metricpush",
		"internal/nodes",
		"internal/nonblock",
		"internal/oidclogin",
		"internal/openapi",
		"internal/otlp",
		"internal/problems",
		"internal/proxy",
		"internal/quotas",
		"internal/reach",
		"internal/refusals",
		"internal/regionfile",
		"internal/regionview",
		"internal/respfront",
		"internal/rls",
		"internal/rlqs",
		"internal/rulereview",
		"internal/rulesource",
		"internal/rulesview",
		"internal/signing",
		"internal/snapfeed",
		"internal/statsd",
		"internal/switchboard",
		"internal/storefile",
		"internal/streamfront",
		"internal/systemd",
		"internal/telemetry",
		"internal/tenantsource",
		"internal/tierfile",
		"internal/timeline",
		"internal/topkeys",
		"internal/tracing",
		"internal/urlrules",
		"internal/usagetoken",
		"internal/view",
		"internal/webhook",
		"internal/xdsrules",
		"limit",
		"overload",
		"overload/fleetusage",
		"overload/httpshed",
		"rules",
		"rules/describe",
		"rules/lint",
		"rules/rulefile",
		"store",
		"store/accuracy",
		"store/breaker",
		"store/denial",
		"store/fleet",
		"store/hotkey",
		"store/lease",
		"store/local",
		"store/memcachestore",
		"store/memstore",
		"store/reconcile",
		"store/redisstore",
		"store/regional",
		"store/totals",
		"store/spread",
		"store/subbucket",
		"switches",
		"tenant",
		"tenant/sqltenant",
		"tenantusage",
		"trace",
		"trial",
	}, "the wiring knows the parts but not the command line"},
	"internal/cli": {[]string{"internal/ascii", "internal/hideurl", "internal/problems", "internal/spelling",
		"internal/loadgen",
		"internal/callers",
		".",
		"descriptor",
		"identity",
		"internal/adminapi",
		"internal/advice",
		"internal/apikeys",
		"internal/app",
		"internal/audit",
		"internal/chainfile",
		"internal/config",
		"internal/envoyenv",
		"internal/excerpt",
		"internal/credentials",
		"internal/drill",
		"internal/hotraise",
		"internal/importer",
		"internal/manual",
		"internal/identityfile",
		"internal/keyname",
		"internal/quotas",
		"internal/recommend",
		"internal/replay",
		"internal/regionfile",
		"internal/rulereview",
		"internal/rulesource",
		"internal/signing",
		"internal/simulate",
		"internal/sleep",
		"internal/switchboard",
		"internal/systemd",
		"internal/telemetry",
		"internal/tierfile",
		"internal/tokenfile",
		"internal/usageview",
		"internal/view",
		"internal/yamlfile",
		"limit",
		"rules",
		"rules/candidates",
		"rules/describe",
		"rules/diff",
		"rules/lint",
		"rules/rulefile",
		"rules/ruletest",
		"store",
		"store/memcachestore",
		"store/memstore",
		"store/redisstore",
		"store/redisstore/doctor",
		"switches",
		"tenant",
		"tenant/sqltenant",
	}, "commands speak with the parts, not with wires"},
	"cmd/headgate": {[]string{"internal/cli"}, "the binary is thin"},

	"store/redisstore/conn":   {[]string{"store", "limit", "store/breaker", "internal/resp", "internal/credentials", "internal/sleep"}, "the way to a server knows nothing of what is asked there"},
	"store/redisstore/doctor": {[]string{"store", "limit", "store/redisstore/conn", "internal/resp", "internal/credentials"}, "what checks a server decides nothing there"},
}

// outsiders says which packages may import a package of others, its
// subpackages included. An entry with no packages bans it in the inside only.
var outsiders = []struct {
	path    string
	allowed []string
	reason  string
}{
	{"github.com/prometheus", []string{"internal/telemetry", "internal/metricpush"}, "metrics have one room, so that they can be exchanged, and one that sends them"},
	{"github.com/envoyproxy", []string{"client/stream", "client/stream/streampb", "internal/rls", "internal/rlqs", "internal/dualrun", "internal/extauthz", "internal/loadgen", "internal/xdsrules"}, "the wire type is not the domain type"},
	{"google.golang.org/grpc", []string{"client/stream", "client/stream/streampb", "internal/rls", "internal/rlqs", "internal/shares", "internal/streamfront", "internal/dualrun", "internal/extauthz", "internal/loadgen", "internal/xdsrules", "grpclimit", "overload/grpcshed"}, "the wire stops at its way in"},
	{"google.golang.org/protobuf", []string{"client/stream", "client/stream/streampb", "internal/rls", "internal/rlqs", "internal/protofields", "internal/streamfront", "internal/streamwire", "internal/xdsrules", "grpclimit", "overload/grpcshed"}, "the wire stops at its way in"},
	{"github.com/redis", nil, "the way to Redis is ours; libraries are clients in tests"},
	{"github.com/fsnotify", []string{"internal/rulesource"}, "only the source of rules watches files"},
	{"github.com/alecthomas", []string{"internal/cli", "internal/config", "internal/manual"}, "only the command line knows its parser"},
	{"go.yaml.in", []string{"rules/candidates", "rules/rulefile", "rules/ruletest", "internal/config", "internal/yamlfile", "internal/identityfile", "internal/tierfile", "internal/webhook", "internal/importer"}, "YAML is read where it is a language of ours, and written by importers alone"},
	{"database/sql", []string{"tenant/sqltenant"}, "no decision waits for a database"},
	{"github.com/jackc", []string{"tenant/sqltenant"}, "no decision waits for a database"},
	{"github.com/aws", []string{"internal/urlrules"}, "requests to S3 are signed in one room"},
	{"github.com/go-jose", []string{"identity"}, "tokens are verified in one room"},
	{"go.opentelemetry.io", []string{"internal/tracing", "internal/metricpush"}, "traces have one room, and the sending of metrics has one, so that they can be exchanged"},
	{"github.com/twmb", []string{"internal/audit"}, "a client library has one room, so that it can be exchanged"},
	{"github.com/anishathalye", nil, "orders of histories are searched in tests alone"},
	{"text/template", nil, "templates look up methods by name, so that the program keeps all of them; internal/markup writes pages"},
	{"html/template", nil, "templates look up methods by name, so that the program keeps all of them; internal/markup writes pages"},
	{"charm.land", []string{"internal/cli"}, "only the command line draws on terminals"},
	{"net/http", []string{"internal/loadgen", "internal/replay", "internal/h1", "internal/h2", "internal/inlet", "internal/callers", "internal/adminapi", "internal/promhistory", "internal/adminlink", "internal/snapfeed", "internal/explain", "internal/dashboard", "internal/issuers", "internal/oidclogin", "internal/otlp", "internal/tracing", "internal/customer", "internal/refusals", "internal/selflimit", "internal/webhook", "internal/watched", "overload/httpshed", "httplimit", "identity", "client", "internal/httpcheck", "internal/extauthz", "internal/forwardauth", "internal/httpanswer", "internal/proxy", "internal/rls", "internal/telemetry", "internal/hostguard", "internal/keylookup", "internal/problems", "internal/urlrules", "internal/app", "internal/cli", "answercost", "costlimit", "internal/costfile"}, "the inside knows no wire"},
	{"log/slog", []string{"internal/denialog", "internal/rehearsal", "internal/rls", "internal/config", "internal/telemetry", "internal/hotraise", "internal/nodes", "internal/reach", "internal/switchboard", "internal/tenantsource", "internal/xdsrules", "internal/app"}, "the inside returns errors and logs nothing"},
}

// free are packages that only tests and examples are made of.
func free(room string) bool {
	return room == "internal/testserver" || room == "internal/testissuer" || room == "internal/testrules" || room == "internal/alloctest" || room == "internal/racetest" || room == "internal/eventually" || room == "internal/explore" || strings.HasPrefix(room, "test/") || strings.HasPrefix(room, "examples/")
}

type listedPackage struct {
	ImportPath string
	Name       string
	Doc        string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func (p *listedPackage) room() string {
	room := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	if room == "" {
		return "."
	}
	return room
}

// listPackages returns all packages of this module.
func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Doc,Dir,GoFiles,Imports", "./...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var list []listedPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		list = append(list, p)
	}
}

// TestImports holds the plan of the house: arrows point down only. It looks at
// the code that is shipped; tests may import what they like.
func TestImports(t *testing.T) {
	present := map[string]bool{}
	for _, p := range listPackages(t) {
		room := p.room()
		present[room] = true
		if free(room) || len(p.GoFiles) == 0 {
			continue
		}
		plan, ok := rooms[room]
		if !ok {
			t.Errorf("package %s has no place in the plan: add it to rooms", room)
			continue
		}
		for _, imported := range p.Imports {
			if inside, ok := strings.CutPrefix(imported, module); ok {
				to := strings.TrimPrefix(inside, "/")
				if to == "" {
					to = "."
				}
				if !slices.Contains(plan.allowed, to) {
					t.Errorf("%s imports %s: %s", room, to, plan.reason)
				}
				continue
			}
			for _, o := range outsiders {
				if (imported == o.path || strings.HasPrefix(imported, o.path+"/")) && !slices.Contains(o.allowed, room) {
					t.Errorf("%s imports %s: %s; it may be imported in %v", room, imported, o.reason, o.allowed)
				}
			}
		}
	}
	for room, plan := range rooms {
		if !present[room] {
			t.Errorf("the plan has %s, which does not exist", room)
		}
		for _, to := range plan.allowed {
			if _, ok := rooms[to]; !ok {
				t.Errorf("the plan lets %s import %s, which is not in it", room, to)
			}
		}
	}
}

// TestPlanHasNoCycle holds that arrows point down only: a plan that allowed a
// cycle would be no plan.
func TestPlanHasNoCycle(t *testing.T) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(room string)
	visit = func(room string) {
		switch state[room] {
		case done:
			return
		case visiting:
			t.Fatalf("the plan has a cycle through %s", room)
		}
		state[room] = visiting
		for _, to := range rooms[room].allowed {
			visit(to)
		}
		state[room] = done
	}
	for room := range rooms {
		visit(room)
	}
}
