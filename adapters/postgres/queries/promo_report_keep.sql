-- A report instead of its samples; reports and samples that nobody asks for any more go.
WITH kept AS (
    INSERT INTO promo_reports (promo, ended, report) VALUES ($1, $2, $3) ON CONFLICT (promo) DO NOTHING
), told AS (
    DELETE FROM promo_samples WHERE promo = $1 OR slot < $2::timestamptz - $4::interval
)
DELETE FROM promo_reports WHERE ended < $2::timestamptz - $5::interval
