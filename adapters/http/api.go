package httpapi

import (
	"fmt"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"andes/eventstore"
	"andes/quota"
)

// access says who may use an endpoint.
type access int

const (
	anyone access = iota
	partners
	opsViewers // and admins
	opsAdmins
)

// endpoint is one row of the table that is router, API document and access rules.
type endpoint struct {
	method, path string
	id           string // operationId
	tag          string
	summary      string
	description  string
	access       access
	quota        quota.Group  // "": none
	keyed        bool         // needs an Idempotency-Key
	frequent     bool         // its good answers are logged for debugging only
	lasting      bool         // it may wait for something to happen: how long it takes says nothing
	body         reflect.Type // of the request; nil: none
	parameters   []*huma.Param
	answers      []answer
	refusals     []eventstore.Code // of its own; what it has in common with others is added
	handle       func(*call) error

	// Set when the edge is built.
	seen    *meters
	queried bool // has parameters in the query string; handle reads them
}

// answer is one good answer of an endpoint.
type answer struct {
	status      int
	body        reflect.Type // nil: no body
	media       string       // "": application/json
	description string
	headers     []string
}

func (e *endpoint) pattern() string { return e.method + " " + e.path }

// API is the HTTP edge.
type API struct {
	Config
	shapes   *shapes
	mux      *http.ServeMux
	direct   map[string]*endpoint // GETs that are found without the mux, by path
	document []byte               // OpenAPI
	page     []byte               // the readable one
	draining atomic.Bool
	drained  chan struct{} // closed when it drains
	observer *observer

	followers  *followers
	micro      *microcache
	remembered *remembered

	webhookKeys [][]byte            // of PaymentWebhookSecrets
	feedKeys    map[string][][]byte // of Feeds
}

// New builds the edge and reports every fault of its configuration.
func New(config Config) (*API, error) {
	config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	keys, err := webhookKeys("payment webhook", config.PaymentWebhookSecrets)
	if err != nil {
		return nil, err
	}
	a := &API{Config: config, mux: http.NewServeMux(), direct: map[string]*endpoint{}, webhookKeys: keys, feedKeys: map[string][][]byte{}}
	for system, feed := range config.Feeds {
		if a.feedKeys[system], err = webhookKeys(system+" feed", feed.Secrets); err != nil {
			return nil, err
		}
	}
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	a.shapes = newShapes(registry)
	observer, err := newObserver(config)
	if err != nil {
		return nil, err
	}
	a.observer = observer
	a.drained = make(chan struct{})
	if a.followers, err = newFollowers(a.Following, config.Registerer); err != nil {
		return nil, err
	}
	if a.micro, err = newMicrocache(config); err != nil {
		return nil, fmt.Errorf("http edge: register metrics of the microcache: %w", err)
	}
	if a.remembered, err = newRemembered(config.Registerer); err != nil {
		return nil, fmt.Errorf("http edge: register metrics of remembered answers: %w", err)
	}
	endpoints := a.endpoints()
	described := huma.NewAPI(huma.Config{OpenAPI: a.describe(registry)}, humago.NewAdapter(a.mux, ""))
	for _, e := range endpoints {
		e.seen, e.queried = observer.of(e), slices.ContainsFunc(e.parameters, inQuery)
		described.OpenAPI().AddOperation(a.operation(e))
		a.mux.HandleFunc(e.pattern(), func(w http.ResponseWriter, r *http.Request) { w.(*call).serve(r, e) })
		if e.method == http.MethodGet && e.frequent && !strings.Contains(e.path, "{") {
			a.direct[e.path] = e
		}
	}
	if err := a.publish(described.OpenAPI(), endpoints); err != nil {
		return nil, err
	}
	return a, nil
}

func inQuery(p *huma.Param) bool { return p.In == "query" }

// endpoints is the table of what is served here.
func (a *API) endpoints() []*endpoint {
	list := a.platformEndpoints()
	if a.serves(Query) {
		list = append(list, a.stockEndpoints()...)
		list = append(list, a.priceEndpoints()...)
		list = append(list, a.productEndpoints()...)
		list = append(list, a.changesEndpoints()...)
		list = append(list, a.orderQueryEndpoints()...)
	}
	if a.serves(Command) {
		list = append(list, a.orderEndpoints()...)
		list = append(list, a.subscriptionEndpoints()...)
		list = append(list, a.partnerEndpoints()...)
		list = append(list, a.webhookEndpoints()...)
		list = append(list, a.feedEndpoints()...)
	}
	if a.serves(Ops) {
		list = append(list, a.opsEndpoints()...)
		if a.QuotaDesk != nil {
			list = append(list, a.quotaEndpoints()...)
		}
		list = append(list, a.guardEndpoints()...)
		if a.PromoDesk != nil {
			list = append(list, a.promoEndpoints()...)
		}
		list = append(list, a.feedDeskEndpoints()...)
		list = append(list, a.stockDeskEndpoints()...)
	}
	return list
}

// Drain makes /readyz say no, so that a load balancer stops sending requests here, and ends what waits for
// changes.
func (a *API) Drain() {
	if !a.draining.Swap(true) {
		close(a.drained)
	}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := a.newCall(w, r)
	defer c.finish()
	if e := a.direct[r.URL.Path]; e != nil && r.Method == http.MethodGet && r.URL.RawPath == "" {
		c.serve(r, e)
		return
	}
	routed, found := c.canonicalRoute()
	if !found {
		c.fail(eventstore.Refuse(CodeRouteUnknown, ""))
		return
	}
	a.mux.ServeHTTP(c, routed)
}

// productPrefix is where a SKU is part of the path.
const productPrefix = "/v1/products/"

// canonicalRoute keeps the mux from cleaning a path and redirecting: a path that is not clean is no
// route here, and all that follows the products' prefix is a SKU, whatever characters it has, so the mux
// does not get to see it.
func (c *call) canonicalRoute() (*http.Request, bool) {
	escaped := c.request.URL.EscapedPath()
	if text, ok := strings.CutPrefix(c.request.URL.Path, productPrefix); ok && strings.HasPrefix(escaped, productPrefix) {
		if text == "" {
			return nil, false
		}
		c.sku = text
		routed := c.request.WithContext(c.request.Context())
		target := *c.request.URL
		target.Path, target.RawPath = productPrefix+"sku", ""
		routed.URL = &target
		return routed, true
	}
	return c.request, escaped == path.Clean(escaped)
}
