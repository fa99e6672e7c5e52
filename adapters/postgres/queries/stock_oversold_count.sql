-- Counted up to a limit, as stock_oversold finds them.
SELECT count(*) FROM (
    SELECT FROM stock WHERE reserved > 0 AND on_hand - shipped < reserved LIMIT $1
) AS oversold
