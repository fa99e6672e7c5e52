SELECT slot, process, sample FROM promo_samples WHERE promo = $1 AND slot >= $2 ORDER BY slot, process
