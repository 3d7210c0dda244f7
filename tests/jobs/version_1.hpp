#pragma once

// Stores with the first version of the tables, as SQL. upgrade.hpp describes their content.

inline constexpr const char* version_1_sqlite = R"sql(
CREATE TABLE canigo_schema(version INTEGER NOT NULL) STRICT;
INSERT INTO canigo_schema VALUES(1);
CREATE TABLE canigo_queue(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, paused_at INTEGER) STRICT;

CREATE TABLE canigo_job(
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  queue        INTEGER NOT NULL,
  priority     INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 15),
  run_at       INTEGER NOT NULL,
  state        INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  lease_until  INTEGER,
  token        INTEGER NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9223372036854775806),
  holder       INTEGER,
  attempt      INTEGER NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483646),
  max_attempts INTEGER NOT NULL CHECK (max_attempts BETWEEN 0 AND 2147483647),
  crashes      INTEGER NOT NULL DEFAULT 0 CHECK (crashes BETWEEN 0 AND 2147483647),
  snoozes      INTEGER NOT NULL DEFAULT 0 CHECK (snoozes BETWEEN 0 AND 2147483647),
  deadline     INTEGER,
  cancel_at    INTEGER,
  created_at   INTEGER NOT NULL,
  finished_at  INTEGER,
  unique_key   BLOB,
  unique_until INTEGER,
  unique_scope INTEGER NOT NULL,
  unique_home  BLOB,
  kind         TEXT NOT NULL,
  history      BLOB,
  result       BLOB,
  payload      BLOB) STRICT;
CREATE TABLE canigo_body(id INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT;

CREATE INDEX canigo_job_ready    ON canigo_job(queue, priority, run_at)    WHERE state=0;
CREATE INDEX canigo_job_deadline ON canigo_job(deadline)                   WHERE state=0 AND deadline IS NOT NULL;
CREATE INDEX canigo_job_lease    ON canigo_job(lease_until)                WHERE state=1;
CREATE INDEX canigo_job_finish   ON canigo_job(queue, finished_at, state)  WHERE state>=2;
CREATE INDEX canigo_job_unwell   ON canigo_job(state, queue)               WHERE state>2 OR state<0;
CREATE UNIQUE INDEX canigo_job_unique ON canigo_job(unique_key)            WHERE unique_key IS NOT NULL;

INSERT INTO canigo_queue VALUES (1,'waiting',NULL), (2,'paused',1795739612624110), (3,'done',NULL),
  (4,'dead',NULL), (5,'poison',NULL), (6,'expired',NULL), (7,'cancelled',NULL), (8,'snoozed',NULL),
  (9,'gone',NULL), (10,'running',NULL), (11,'last',NULL);
INSERT INTO canigo_job(id, queue, priority, run_at, state, lease_until, token, holder, attempt, max_attempts,
  crashes, snoozes, deadline, cancel_at, created_at, finished_at, unique_key, unique_until, unique_scope,
  unique_home, kind, history, result, payload) VALUES
(1, 1, 0, 1795739612621762, 0, NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL, 1795739612621762, NULL, NULL, NULL, 1,
  NULL, 'plain', NULL, NULL, X'610062ff0a'),
(2, 1, 15, 2741819612622379, 0, NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL, 1795739612622379, NULL, NULL, NULL, 1,
  NULL, 'urgent_later', NULL, NULL, X'6c61746572'),
(3, 1, 3, 1795739612622761, 0, NULL, 0, NULL, 0, 7, 0, 0, 3372539612622761, NULL, 1795739612622761, NULL, NULL,
  NULL, 1, NULL, 'long', NULL, NULL, NULL),
(4, 1, 0, 1795739612623214, 0, NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL, 1795739612623214, NULL, X'610062ff0a',
  NULL, 1, X'610062ff0a', 'unique', NULL, NULL, X''),
(5, 2, 0, 1795739612623653, 0, NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL, 1795739612623653, NULL, NULL, NULL, 1,
  NULL, 'held', NULL, NULL, X'68656c64'),
(6, 3, 0, 1795739612624436, 2, NULL, 1795739612624790, 3685742135305676543, 1, 25, 0, 0, NULL, NULL,
  1795739612624436, 1795739612624997, X'666f7220612074696d65', 2741819612624436, 2, X'666f7220612074696d65',
  'answers', NULL, X'610062ff0a', X'7175657374696f6e'),
(7, 4, 0, 1795739612625826, 3, NULL, 1795739612646426, 3685742135305676543, 2, 2, 0, 0, NULL, NULL,
  1795739612625357, 1795739612646575, NULL, NULL, 1, NULL, 'fails',
  CAST(X'31373935373339363132363235383236203120662066697273743a206e6f20726f7574650a3137393537333936'||
  X'313236343635373520322066207365636f6e643a20c3a4206c696e6520627265616b0a' AS BLOB), NULL, X''),
(8, 5, 0, 1795739612699653, 3, NULL, 1795739612750136, 3685742135305676543, 0, 25, 2, 0, NULL, NULL,
  1795739612647127, 1795739612800524, NULL, NULL, 1, NULL, 'crashes',
  X'3137393537333936313236393836353320312063200a3137393537333936313238303035323420312063200a', NULL, X''),
(9, 6, 0, 1795739612800707, 3, NULL, 0, NULL, 0, 25, 0, 0, 1795739612801707, NULL, 1795739612800707,
  1795739612851626, NULL, NULL, 1, NULL, 'too_late', X'3137393537333936313238353136323620302065200a', NULL, X''),
(10, 7, 0, 1795739612851868, 4, NULL, 0, NULL, 0, 25, 0, 0, NULL, 1795739612852395, 1795739612851868,
  1795739612852395, NULL, NULL, 1, NULL, 'unwanted', NULL, NULL, X''),
(11, 8, 1, 1795739612873937, 0, NULL, 1795739612873784, 3685742135305676543, 1, 25, 0, 1, NULL, NULL,
  1795739612852854, NULL, NULL, NULL, 1, NULL, 'sleeper',
  X'3137393537333936313238373339333720312066206f6e63650a', NULL, X''),
(13, 10, 0, 1795739612875229, 1, 2741819612877217, 1795739612875596, 3685742135305676543, 1, 25, 0, 0, NULL,
  NULL, 1795739612875229, NULL, NULL, NULL, 1, NULL, 'steady', NULL, X'68616c66', X'72756e6e696e67'),
(14, 10, 0, 1795739612877485, 1, 2741819612877871, 1795739612877871, 3685742135305676543, 1, 25, 0, 0, NULL,
  1795739612877942, 1795739612877485, NULL, NULL, NULL, 1, NULL, 'doomed', NULL, NULL, X''),
(15, 10, 0, 1795739612878240, 1, 1795739612978570, 1795739612878570, 3685742135305676543, 1, 25, 0, 0, NULL,
  NULL, 1795739612878240, NULL, NULL, NULL, 0, X'626567756e', 'stale', NULL, NULL, X'7374616c65');
INSERT INTO canigo_body VALUES(3, CAST(printf('%.5000c', 'x') AS BLOB));
UPDATE sqlite_sequence SET seq=16;
)sql";

inline constexpr const char* version_1_postgres = R"sql(
CREATE TABLE canigo_schema(version int NOT NULL);
INSERT INTO canigo_schema VALUES(1);
CREATE TABLE canigo_queue(name text PRIMARY KEY, paused_at timestamptz);

CREATE TABLE canigo_job(
  id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue        text NOT NULL DEFAULT 'default',
  kind         text NOT NULL,
  priority     smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 15),
  state        smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 4),
  run_at       timestamptz NOT NULL DEFAULT now(),
  lease_until  timestamptz,
  token        bigint NOT NULL DEFAULT 0 CHECK (token BETWEEN 0 AND 9223372036854775806),
  holder       bigint,
  attempt      int NOT NULL DEFAULT 0 CHECK (attempt BETWEEN 0 AND 2147483646),
  max_attempts int NOT NULL DEFAULT 25 CHECK (max_attempts >= 0),
  crashes      int NOT NULL DEFAULT 0 CHECK (crashes >= 0),
  snoozes      int NOT NULL DEFAULT 0 CHECK (snoozes >= 0),
  deadline     timestamptz,
  cancel_at    timestamptz,
  created_at   timestamptz NOT NULL DEFAULT now(),
  finished_at  timestamptz,
  unique_key   bytea,
  unique_home  bytea,
  unique_scope smallint NOT NULL DEFAULT 1,
  unique_until timestamptz,
  history      bytea[] NOT NULL DEFAULT '{}',
  result       bytea,
  payload      bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX canigo_job_ready    ON canigo_job(queue, priority, run_at, id)    WHERE state = 0;
CREATE INDEX canigo_job_deadline ON canigo_job(deadline)                       WHERE state = 0 AND deadline IS NOT NULL;
CREATE INDEX canigo_job_lease    ON canigo_job(lease_until)                    WHERE state = 1;
CREATE INDEX canigo_job_finish   ON canigo_job(queue, finished_at, state, id)  WHERE state >= 2;
CREATE INDEX canigo_job_unwell   ON canigo_job(state, id, queue)               WHERE state < 0 OR state > 2;
CREATE UNIQUE INDEX canigo_job_unique ON canigo_job(unique_key)                WHERE unique_key IS NOT NULL;

INSERT INTO canigo_queue(name, paused_at) VALUES ('waiting', NULL), ('paused', '2026-11-27 00:33:33.770836+00'),
  ('done', NULL), ('dead', NULL), ('poison', NULL), ('expired', NULL), ('cancelled', NULL), ('snoozed', NULL),
  ('gone', NULL), ('running', NULL), ('last', NULL);
INSERT INTO canigo_job(id, queue, kind, priority, state, run_at, lease_until, token, holder, attempt,
  max_attempts, crashes, snoozes, deadline, cancel_at, created_at, finished_at, unique_key, unique_home,
  unique_scope, unique_until, history, result, payload)
  OVERRIDING SYSTEM VALUE VALUES
(1, 'waiting', 'plain', 0, 0, '2026-11-27 00:33:33.763767+00', NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL,
  '2026-11-27 00:33:33.763767+00', NULL, NULL, NULL, 1, NULL, '{}', NULL, '\x610062ff0a'),
(2, 'waiting', 'urgent_later', 15, 0, '2056-11-19 00:33:33.766433+00', NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL,
  '2026-11-27 00:33:33.766433+00', NULL, NULL, NULL, 1, NULL, '{}', NULL, '\x6c61746572'),
(3, 'waiting', 'long', 3, 0, '2026-11-27 00:33:33.767143+00', NULL, 0, NULL, 0, 7, 0, 0,
  '2076-11-14 00:33:33.767143+00', NULL, '2026-11-27 00:33:33.767143+00', NULL, NULL, NULL, 1, NULL, '{}', NULL,
  convert_to(repeat('x', 5000), 'UTF8')),
(4, 'waiting', 'unique', 0, 0, '2026-11-27 00:33:33.767928+00', NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL,
  '2026-11-27 00:33:33.767928+00', NULL, '\x610062ff0a', '\x610062ff0a', 1, NULL, '{}', NULL, '\x'),
(5, 'paused', 'held', 0, 0, '2026-11-27 00:33:33.769355+00', NULL, 0, NULL, 0, 25, 0, 0, NULL, NULL,
  '2026-11-27 00:33:33.769355+00', NULL, NULL, NULL, 1, NULL, '{}', NULL, '\x68656c64'),
(6, 'done', 'answers', 0, 2, '2026-11-27 00:33:33.771135+00', NULL, 1795739613773371, 4897513695075576357, 1,
  25, 0, 0, NULL, NULL, '2026-11-27 00:33:33.771135+00', '2026-11-27 00:33:33.773624+00',
  '\x666f7220612074696d65', '\x666f7220612074696d65', 2, '2056-11-19 00:33:33.771135+00', '{}', '\x610062ff0a',
  '\x7175657374696f6e'),
(7, 'dead', 'fails', 0, 3, '2026-11-27 00:33:33.776123+00', NULL, 1795739613797597, 7074856477543999034, 2, 2,
  0, 0, NULL, NULL, '2026-11-27 00:33:33.774513+00', '2026-11-27 00:33:33.797757+00', NULL, NULL, 1, NULL,
  ARRAY['\x31373935373339363133373736313233203120662066697273743a206e6f20726f757465'::bytea,
  '\x3137393537333936313337393737353720322066207365636f6e643a20c3a4206c696e6520627265616b'::bytea], NULL, '\x'),
(8, 'poison', 'crashes', 0, 3, '2026-11-27 00:33:33.851436+00', NULL, 1795739613902921, 5729184632819245145, 0,
  25, 2, 0, NULL, NULL, '2026-11-27 00:33:33.798379+00', '2026-11-27 00:33:33.954319+00', NULL, NULL, 1, NULL,
  ARRAY['\x313739353733393631333835303433362031206320'::bytea,
  '\x313739353733393631333935343331392031206320'::bytea], NULL, '\x'),
(9, 'expired', 'too_late', 0, 3, '2026-11-27 00:33:33.954781+00', NULL, 0, NULL, 0, 25, 0, 0,
  '2026-11-27 00:33:33.955781+00', NULL, '2026-11-27 00:33:33.954781+00', '2026-11-27 00:33:34.011412+00', NULL,
  NULL, 1, NULL, ARRAY['\x313739353733393631343031313431322030206520'::bytea], NULL, '\x'),
(10, 'cancelled', 'unwanted', 0, 4, '2026-11-27 00:33:34.015896+00', NULL, 0, NULL, 0, 25, 0, 0, NULL,
  '2026-11-27 00:33:34.027474+00', '2026-11-27 00:33:34.015896+00', '2026-11-27 00:33:34.027474+00', NULL, NULL,
  1, NULL, '{}', NULL, '\x'),
(11, 'snoozed', 'sleeper', 1, 0, '2026-11-27 00:33:34.078962+00', NULL, 1795739614078733, 860498160901314691, 1,
  25, 0, 1, NULL, NULL, '2026-11-27 00:33:34.035374+00', NULL, NULL, NULL, 1, NULL,
  ARRAY['\x3137393537333936313430373839363220312066206f6e6365'::bytea], NULL, '\x'),
(13, 'running', 'steady', 0, 1, '2026-11-27 00:33:34.091637+00', '2056-11-19 00:33:34.093262+00',
  1795739614093128, 6560855570562913934, 1, 25, 0, 0, NULL, NULL, '2026-11-27 00:33:34.091637+00', NULL, NULL,
  NULL, 1, NULL, '{}', '\x68616c66', '\x72756e6e696e67'),
(14, 'running', 'doomed', 0, 1, '2026-11-27 00:33:34.093794+00', '2056-11-19 00:33:34.098895+00',
  1795739614099227, 3037840943369737368, 1, 25, 0, 0, NULL, '2026-11-27 00:33:34.099513+00',
  '2026-11-27 00:33:34.093794+00', NULL, NULL, NULL, 1, NULL, '{}', NULL, '\x'),
(15, 'running', 'stale', 0, 1, '2026-11-27 00:33:34.11553+00', '2026-11-27 00:33:34.223448+00',
  1795739614127438, 8738198353031336611, 1, 25, 0, 0, NULL, NULL, '2026-11-27 00:33:34.11553+00', NULL, NULL,
  '\x626567756e', 0, NULL, '{}', NULL, '\x7374616c65');
SELECT setval('canigo_job_id_seq', 16);
)sql";
