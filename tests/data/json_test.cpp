#include "data/json.h"

#include <gtest/gtest.h>

#include "data/json_fields.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

TEST(Json, WhatIsWrittenIsWhatWasReadInItsOrder) {
  const std::string text = R"({"z":[1,-2,3.5,true,null],"a":{"é":"\"\n"},"big":9223372036854775807,"e":[]})";
  EXPECT_EQ(write_json(parse_json(text, "case"), JsonLayout::compact), text);
  EXPECT_EQ(write_json(parse_json("{\"a\":[1]}", "case"), JsonLayout::indented),
            "{\n  \"a\": [\n    1\n  ]\n}\n");
  EXPECT_EQ(
      write_json(parse_json("{\"a\":{\"b\":[],\"c\":{}},\"d\":[null,\"\\n\"]}", "case"),
                 JsonLayout::indented),
      "{\n  \"a\": {\n    \"b\": [],\n    \"c\": {}\n  },\n  \"d\": [\n    null,\n    \"\\n\"\n  ]\n}\n");
}

TEST(Json, KeepsWholeNumbersApartFromOthers) {
  EXPECT_NE(parse_json("1", "case").get<std::int64_t>(), nullptr);
  EXPECT_NE(parse_json("1.0", "case").get<double>(), nullptr);
  EXPECT_NE(parse_json("1e3", "case").get<double>(), nullptr);
  EXPECT_NE(parse_json("9223372036854775808", "case").get<double>(), nullptr);
}

TEST(Json, RefusesMistakesByTheirPlace) {
  expect_error([] { parse_json("{\"a\": 1,}", "case"); }, {"case", "expected JSON", "line 1, column 9"});
  expect_error([] { parse_json("", "case"); }, {"case", "expected JSON"});
  expect_error([] { parse_json("[NaN]", "case"); }, {"case", "expected JSON"});
  expect_error([] { parse_json("[1e999]", "case"); }, {"case", "expected JSON"});
  expect_error([] { parse_json(R"([{"a":1,"b":2,"a":3}])", "case"); }, {"case", "\"a\" stands twice"});
  expect_error([] { parse_json(std::string(65, '['), "case"); }, {"case", "deeper than 64"});
}

TEST(JsonFields, NameFileKeyExpectedAndFound) {
  const std::string file = "config.json";
  const JsonValue document = parse_json(
      R"({"layers": 3, "share": 2.5, "name": "x", "on": true, "none": null, "sub": {"ids": [1, 2, "c"]}, "one": 5})",
      file);
  const JsonFields fields(file, "", document);
  EXPECT_EQ(fields.integer("layers", {.least = 1}), 3);
  EXPECT_EQ(fields.number("layers", {}), 3.0);
  EXPECT_EQ(fields.find_boolean("on"), true);
  EXPECT_FALSE(fields.has("none"));
  EXPECT_EQ(fields.find_text("none"), std::nullopt);
  EXPECT_EQ(fields.integers_or_one("one", {}), (std::vector<std::int64_t>{5}));
  EXPECT_TRUE(fields.integers_or_one("none", {}).empty());
  expect_error([&] { fields.integer("layers", {.least = 4, .most = 9}); },
               {"config.json: layers: expected a whole number from 4 to 9, found 3; correct it"});
  expect_error([&] { fields.integer("share", {}); }, {"share: expected a whole number from 0, found 2.5"});
  expect_error([&] { fields.integer("none", {}); },
               {"none: expected a whole number from 0, found no such key"});
  expect_error([&] { fields.number("share", {.least = 0, .most = 1}); },
               {"share: expected a number from 0 to 1, found 2.5"});
  expect_error([&] { fields.number("name", {}); }, {"name: expected a number", "found \"x\""});
  expect_error([&] { fields.find_boolean("layers"); }, {"layers: expected true or false, found 3"});
  expect_error([&] { fields.text("on"); }, {"on: expected a text, found true"});
  expect_error([&] { fields.object("name"); }, {"name: expected an object, found \"x\""});
  expect_error([&] { fields.object("sub").integers("ids", {}); },
               {"config.json: sub.ids: expected a list of whole numbers from 0, found [1,2,\"c\"]"});
  expect_error([&] { fields.object("sub").find_texts("ids"); }, {"sub.ids: expected a list of texts"});
  expect_error([&] { fields.list("sub"); }, {"sub: expected a list, found an object of 1 members"});
  const JsonValue list = parse_json("[]", file);
  expect_error([&] { JsonFields(file, "", list); }, {"config.json: expected a JSON object, found []"});
}

}  // namespace
}  // namespace draftsmith
