// Package promo is the mode in which Andes goes through a promotion: what is prepared, switched and told.
//
//	        on: the promo's products are looked at         From is reached                Until is reached,
//	        and put into the read model first                                             or off
//	┌─────┐ ───────────────────────────────────► ┌─────────┐ ────────────► ┌────┐ ────────────────────► ┌──────┐
//	│ off │                                      │ waiting │               │ on │                       │ over │
//	└─────┘ ◄─────────────────────────────────── └─────────┘               └────┘                       └──────┘
//	   ▲                   off                                                                             │
//	   └──────────────────────────── the report is kept ◄──────────────────────────────────────────────────┘
//
// The State is one row that every process looks at, and each compares it with its own clock. So all begin and end at the
// same instant, and a promo ends by itself whatever is restarted, and whether or not the row can be read then. Promo
// mode never begins before every process has had the time to hear of it.
//
// While it is on
//
//   - answers about stock and prices are kept for a moment, per partner and question (State.Microcache);
//   - the promo's products are polled more often;
//   - every process counts what it did in each slot of time (Sample), of which the board and the report are made;
//   - operators may switch the prepared degradations, least first: serve older answers, show less stock, lower the
//     quotas of the lower tiers. They end with the promo.
package promo
