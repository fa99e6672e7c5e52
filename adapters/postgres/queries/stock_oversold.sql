-- SKUs of which orders hold more units than there are. An index on it would be touched by every order, so the states of
-- all SKUs are looked at instead: operators ask seldom.
SELECT states.category, states.key, states.version, states.position, states.owner, states.state
FROM stock JOIN states ON states.category = 'stock' AND states.key = stock.sku
WHERE stock.sku > $1 AND stock.reserved > 0 AND stock.on_hand - stock.shipped < stock.reserved
ORDER BY stock.sku LIMIT $2
