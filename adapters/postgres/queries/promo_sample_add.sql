INSERT INTO promo_samples (promo, slot, process, sample) VALUES ($1, $2, $3, $4)
ON CONFLICT (promo, slot, process) DO UPDATE SET sample = excluded.sample
