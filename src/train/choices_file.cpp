#include "train/choices_file.h"

#include "data/json.h"
#include "data/json_fields.h"

namespace draftsmith {
namespace {

template <typename Texts>
JsonValue texts_json(const Texts& texts) {
  JsonObject json;
  for (const auto& [name, value] : texts) json.push_back({name, {value}});
  return {json};
}

// The members of an object whose values are all texts.
DeviceFacts texts_of(const JsonFields& fields, const JsonValue& device, std::string_view key) {
  fields.object(key);
  DeviceFacts texts;
  for (const JsonMember& member : *find_member(*device.get<JsonObject>(), key)->get<JsonObject>()) {
    const std::string* const value = member.value.get<std::string>();
    if (value == nullptr) fields.refuse(key, "an object of texts", "use another checkpoint");
    texts.emplace_back(member.key, *value);
  }
  return texts;
}

}  // namespace

std::string choices_text(const std::vector<DeviceChoices>& choices) {
  JsonArray devices;
  for (const DeviceChoices& one : choices) {
    devices.push_back({JsonObject{{"facts", texts_json(one.facts)}, {"products", texts_json(one.products)}}});
  }
  return write_json({JsonObject{{"devices", {devices}}}}, JsonLayout::indented);
}

std::vector<DeviceChoices> parse_choices(std::string_view text, const std::string& file) {
  const JsonValue json = parse_json(text, file);
  std::vector<DeviceChoices> choices;
  for (const JsonValue& device : JsonFields(file, "", json).list("devices")) {
    const JsonFields fields(file, "devices.", device);
    const DeviceFacts products = texts_of(fields, device, "products");
    choices.push_back(
        {.facts = texts_of(fields, device, "facts"), .products = {products.begin(), products.end()}});
  }
  return choices;
}

}  // namespace draftsmith
