package main

import (
	"net/http"

	"andes/adapters/guard"
	"andes/adapters/oms"
	"andes/adapters/tryton"
	"andes/polling"
)

// trytonKind is the kind of a system that is a Tryton.
const trytonKind = "tryton"

// trytonRates are the most calls a second to a Tryton that is ERP, WMS and OMS: with all three it is let
// alone below the 40 at which it saturates.
var trytonRates = map[string]int{"erp": 12, "wms": 14, "oms": 14}

// kind is what the system is; empty: of the simulators' kind.
func (s *settings) kind(system string) string {
	return map[string]string{"erp": s.ERPKind, "wms": s.WMSKind, "oms": s.OMSKind}[system]
}

// transport of a system's guard; nil is the guard's own.
func (s *settings) transport(system string) http.RoundTripper {
	if s.kind(system) != trytonKind {
		return nil
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = s.guard(system).Concurrency
	return tryton.Transport{Base: base}
}

// tryton gives a client that goes through the guard. All of one server share a session.
func (p *platform) tryton(url string, caller *guard.Guard) (*tryton.Client, error) {
	if client := p.trytons[url]; client != nil {
		return client.Through(caller), nil
	}
	client, err := tryton.New(tryton.Config{
		URL: url, Database: p.settings.TrytonDatabase, User: p.settings.TrytonUser, Password: p.settings.TrytonPassword, Caller: caller,
	})
	if err != nil {
		return nil, err
	}
	if p.trytons == nil {
		p.trytons = map[string]*tryton.Client{}
	}
	p.trytons[url] = client
	return client, nil
}

func (p *platform) trytonCatalogue(caller *guard.Guard) (products, prices polling.Source, err error) {
	client, err := p.tryton(p.settings.ERPURL, caller)
	if err != nil {
		return nil, nil, err
	}
	catalogue := &tryton.Catalogue{
		Client: client, Reader: p.store, States: p.store, PriceList: p.settings.TrytonPriceList, CompareEvery: p.settings.TrytonCompare,
	}
	return catalogue.Products(), catalogue.Prices(), catalogue.Check()
}

func (p *platform) trytonWarehouse(caller *guard.Guard) (stock, shipments polling.Source, err error) {
	client, err := p.tryton(p.settings.WMSURL, caller)
	if err != nil {
		return nil, nil, err
	}
	warehouse := &tryton.Warehouse{
		Client: client, Reader: p.store, States: p.store, Codes: list(p.settings.TrytonWarehouses), CompareEvery: p.settings.TrytonCompare,
	}
	return warehouse.Stock(), warehouse.Shipments(), warehouse.Check()
}

func (p *platform) trytonSales(caller *guard.Guard) (oms.System, error) {
	client, err := p.tryton(p.settings.OMSURL, caller)
	if err != nil {
		return nil, err
	}
	return &tryton.Sales{Client: client, Warehouse: p.settings.TrytonShipFrom}, nil
}
